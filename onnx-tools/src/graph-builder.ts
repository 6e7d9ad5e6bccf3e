/** Builds an ONNX graph node by node: names unnamed values and deduplicates constants. It knows no model. */
import {
  ONNX_TYPES,
  type OnnxAttribute,
  type OnnxNode,
  type OnnxTensor,
  type OnnxValue,
} from "@nereid/server/formats/onnx/writer";
import type { LazyBytes } from "@nereid/server/formats/protobuf/writer";

export interface BuiltGraph {
  readonly nodes: readonly OnnxNode[];
  readonly tensors: readonly OnnxTensor[];
  readonly inputs: readonly OnnxValue[];
  readonly outputs: readonly OnnxValue[];
}

type Attributes = NonNullable<OnnxNode["attributes"]>;

export class GraphBuilder {
  readonly #nodes: OnnxNode[] = [];
  readonly #tensors = new Map<string, OnnxTensor>();
  readonly #inputs: OnnxValue[] = [];
  readonly #outputs: OnnxValue[] = [];
  #scope = "";

  /** Path prefix of the following nodes, e.g. "encoder/layer.0". */
  enter(scope: string): void {
    this.#scope = `/${scope}`;
  }

  input(value: OnnxValue): string {
    this.#inputs.push(value);
    return value.name;
  }

  /** Gives a value its public output name. */
  output(from: string, value: OnnxValue): void {
    this.#nodes.push({ operator: "Identity", name: `/${value.name}`, inputs: [from], outputs: [value.name] });
    this.#outputs.push(value);
  }

  /** Adds a node with one output and returns the output's name. */
  node(operator: string, inputs: readonly string[], attributes: Attributes = {}): string {
    const name = `${this.#scope}/${operator}_${this.#nodes.length}`;
    this.#nodes.push({ operator, name, inputs, outputs: [`${name}_output_0`], attributes });
    return `${name}_output_0`;
  }

  cast(value: string, type: (typeof ONNX_TYPES)[keyof typeof ONNX_TYPES]): string {
    return this.node("Cast", [value], { to: { int: type } });
  }

  /** A float weight, stored once even when added twice. */
  weight(name: string, dims: readonly number[], data: LazyBytes): string {
    this.#tensors.set(name, { name, type: ONNX_TYPES.FLOAT, dims, data });
    return name;
  }

  /** A list of float constants. */
  floats(name: string, values: readonly number[]): string {
    const data = new Uint8Array(Float32Array.from(values).buffer);
    this.#tensors.set(name, { name, type: ONNX_TYPES.FLOAT, dims: [values.length], data });
    return name;
  }

  /** A list of integers. */
  ints(values: readonly number[]): string {
    const name = `ints_${values.join("_").replaceAll("-", "minus")}`;
    const data = new Uint8Array(BigInt64Array.from(values, BigInt).buffer);
    this.#tensors.set(name, { name, type: ONNX_TYPES.INT64, dims: [values.length], data });
    return name;
  }

  /** A float scalar. */
  float(value: number): string {
    const name = `float_${value}`;
    this.#tensors.set(name, { name, type: ONNX_TYPES.FLOAT, dims: [], data: floatBytes(value) });
    return name;
  }

  /** An integer scalar. */
  int(value: number): string {
    const name = `int_${value}`;
    const data = new Uint8Array(BigInt64Array.of(BigInt(value)).buffer);
    this.#tensors.set(name, { name, type: ONNX_TYPES.INT64, dims: [], data });
    return name;
  }

  /** A tensor of the shape in `shape`, filled with one float. */
  filled(shape: string, value: number): string {
    const attribute: OnnxAttribute = {
      tensor: { name: "value", type: ONNX_TYPES.FLOAT, dims: [1], data: floatBytes(value) },
    };
    return this.node("ConstantOfShape", [shape], { value: attribute });
  }

  /** Dimensions `start` to `end` of a value's shape, as a list. */
  sizes(value: string, start: number, end: number): string {
    return this.node("Shape", [value], { start: { int: start }, end: { int: end } });
  }

  build(): BuiltGraph {
    return { nodes: this.#nodes, tensors: [...this.#tensors.values()], inputs: this.#inputs, outputs: this.#outputs };
  }
}

function floatBytes(value: number): Uint8Array {
  return new Uint8Array(Float32Array.of(value).buffer);
}
