/** Tensors as a model's code sees them, and the conversion of its results to the server's tensors. Knows no thread. */
import type { Datatype } from "@nereid/wire";
import { bytesElements } from "../../../core/bytes-tensor.ts";
import { elementCount, type Tensor } from "../../../core/tensor.ts";
import type { PackedTensor, TensorPlan } from "../messages.ts";
import type * as Api from "../model-api.ts";
import { unpackTensor } from "../pack-tensors.ts";
import { arrayOver, datatypeOfArray, encodeElements, floatsOf } from "./element-arrays.ts";

/** An input tensor, decoded on first access. */
export class ModelTensor implements Api.Tensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly #raw: Tensor;
  #data: Api.Tensor["data"] | undefined;
  #strings: readonly string[] | undefined;

  constructor(packed: PackedTensor, buffer: ArrayBuffer) {
    this.name = packed.name;
    this.datatype = packed.datatype;
    this.shape = packed.shape;
    this.#raw = unpackTensor(packed, buffer);
  }

  get data(): Api.Tensor["data"] {
    this.#data ??=
      this.datatype === "BYTES"
        ? bytesElements(this.#raw)
        : arrayOver(this.datatype, this.#raw.data as Uint8Array<ArrayBuffer>);
    return this.#data;
  }

  get strings(): readonly string[] {
    this.#strings ??= Array.from(this.data, textOf);
    return this.#strings;
  }

  get floats(): Float32Array {
    if (this.datatype === "BYTES") return Float32Array.from(this.strings, Number);
    return floatsOf(this.datatype, arrayOver(this.datatype, this.#raw.data as Uint8Array<ArrayBuffer>));
  }
}

const decoder = new TextDecoder();

function textOf(element: Uint8Array | number | bigint): string {
  return typeof element === "object" ? decoder.decode(element) : String(element);
}

/** By name, without the members that other objects have: names come from configurations and clients. */
export function inputsByName(inputs: readonly PackedTensor[], buffer: ArrayBuffer): Record<string, ModelTensor> {
  const byName: Record<string, ModelTensor> = Object.create(null);
  for (const input of inputs) byName[input.name] = new ModelTensor(input, buffer);
  return byName;
}

interface WrittenTensor {
  readonly data: unknown;
  readonly shape: readonly number[] | undefined;
  readonly datatype: Datatype | undefined;
}

/** `rows`: the batch dimension; -1 = to be found out, undefined = the model has none. @throws TypeError */
export function tensorOf(
  kind: "input" | "output",
  name: string,
  value: unknown,
  plan: TensorPlan | undefined,
  rows: number | undefined,
): Tensor {
  const where = `${kind} '${name}'`;
  const written = writtenTensor(value);
  const datatype = plan?.datatype ?? written.datatype ?? datatypeOfArray(written.data);
  if (datatype === undefined) {
    throw new TypeError(
      `${where} is not in the configuration, and plain numbers do not tell a datatype: give a typed array`,
    );
  }
  const { count, data } = encodeElements(datatype, written.data, where);
  const shape = written.shape ?? shapeOf(plan?.dims, rows, count, where);
  if (elementCount(shape) !== count) {
    throw new TypeError(
      `${where} has ${count} elements, and its shape [${shape.join(",")}] holds ${elementCount(shape)}`,
    );
  }
  return { name, datatype, shape, data };
}

function writtenTensor(value: unknown): WrittenTensor {
  const isWrapped = typeof value === "object" && value !== null && !Array.isArray(value) && "data" in value;
  if (!isWrapped) return { data: value, shape: undefined, datatype: undefined };
  const { data, shape, datatype }: { data: unknown; shape?: readonly number[]; datatype?: Datatype } = value;
  return { data, shape, datatype };
}

/** The shape that `count` elements have by the configuration. @throws TypeError when that is not one shape */
export function shapeOf(
  dims: readonly number[] | undefined,
  rows: number | undefined,
  count: number,
  where: string,
): readonly number[] {
  if (dims === undefined) return [count];
  // A client's call of a model that batches is one row, unless the rest is fixed and the elements tell how many.
  const known = rows === -1 && dims.includes(-1) ? 1 : rows;
  const wanted = known === undefined ? dims : [known, ...dims];
  const free = wanted.filter((dim) => dim === -1).length;
  const fixed = wanted.reduce((product, dim) => (dim === -1 ? product : product * dim), 1);
  const rest = count / fixed;
  const fits = free === 0 ? count === fixed : Number.isInteger(rest);
  if (free <= 1 && fits) return wanted.map((dim) => (dim === -1 ? rest : dim));
  const hint = free > 1 ? "give { data, shape }" : "their number does not fit";
  throw new TypeError(`${where} has shape [${wanted.join(",")}] and ${count} elements: ${hint}`);
}
