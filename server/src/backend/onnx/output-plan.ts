/**
 * Knows before a run what shape an output will have, where the model says so: then the result can be written straight
 * into the memory that is sent. A free dimension is known when an input has one of the same name.
 */
import { byteSize, type Tensor } from "../../core/tensor.ts";
import type { OutputRequest } from "../../native/onnxruntime/frame.ts";
import type { ModelInfo, ValueInfo } from "../../native/onnxruntime/info.ts";

/** A fixed size, or the dimension of an input that has the same size. */
type PlannedDim = number | { readonly input: string; readonly axis: number };

export class OutputPlan {
  readonly #shapes: ReadonlyMap<string, readonly PlannedDim[]>;
  readonly #values: ReadonlyMap<string, ValueInfo>;

  constructor(info: ModelInfo) {
    this.#values = new Map(info.outputs.map((value) => [value.name, value]));
    const planned = info.outputs.map((value) => [value.name, planShape(value, info.inputs)] as const);
    this.#shapes = new Map(planned.flatMap(([name, shape]) => (shape === undefined ? [] : [[name, shape]])));
  }

  has(name: string): boolean {
    return this.#values.has(name);
  }

  /** The output with memory for its result, or without when its size is not known. */
  request(name: string, inputs: readonly Tensor[]): OutputRequest {
    const datatype = this.#values.get(name)?.elementType.datatype;
    const planned = this.#shapes.get(name);
    if (datatype === undefined || datatype === "BYTES" || planned === undefined) return { name };
    const shape: number[] = [];
    for (const dim of planned) {
      const size = typeof dim === "number" ? dim : inputs.find((input) => input.name === dim.input)?.shape[dim.axis];
      if (size === undefined) return { name };
      shape.push(size);
    }
    // Not zeroed: a good run writes every byte, and of a failed one nothing is shown.
    return { name, into: { name, datatype, shape, data: Buffer.allocUnsafe(byteSize(datatype, shape) ?? 0) } };
  }
}

function planShape({ dims, dimNames }: ValueInfo, inputs: readonly ValueInfo[]): PlannedDim[] | undefined {
  const planned: PlannedDim[] = [];
  for (const [axis, dim] of dims.entries()) {
    const source = dim >= 0 ? dim : findDim(dimNames[axis] ?? "", inputs);
    if (source === undefined) return undefined;
    planned.push(source);
  }
  return planned;
}

function findDim(name: string, inputs: readonly ValueInfo[]): PlannedDim | undefined {
  if (name === "") return undefined;
  for (const input of inputs) {
    const axis = input.dimNames.indexOf(name);
    if (axis >= 0) return { input: input.name, axis };
  }
  return undefined;
}
