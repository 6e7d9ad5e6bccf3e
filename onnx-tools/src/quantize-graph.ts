/**
 * Dynamic quantization: replaces MatMul and Gemm with constant matrices by MatMulInteger. Weights are quantized once,
 * activations at run time by their range. Source: ONNX operators DynamicQuantizeLinear and MatMulInteger. It knows no
 * file.
 */

import { ToolError } from "@nereid/server/files/tool-error";
import {
  type DocumentNode,
  type DocumentTensor,
  newNode,
  newTensor,
  type OnnxDocument,
  usedNames,
} from "@nereid/server/formats/onnx/document";
import { ONNX_TYPES, type OnnxNode } from "@nereid/server/formats/onnx/writer";
import { transpose } from "./encoder-weights.ts";
import { type IntegerMatrix, type MatrixOptions, quantizeColumns } from "./quantize-matrix.ts";

export interface QuantizedGraph {
  readonly document: OnnxDocument;
  readonly numMatmuls: number;
}

/** First opset with DynamicQuantizeLinear. */
const MIN_OPSET = 11;

/** @throws ToolError when the model is too old; `onMatmul` is called for each replaced node */
export function quantizeGraph(
  document: OnnxDocument,
  options: MatrixOptions,
  onMatmul: (name: string) => void,
): QuantizedGraph {
  if (document.opset < MIN_OPSET) {
    throw new ToolError(`The model is of ONNX opset ${document.opset}, expected at least ${MIN_OPSET}`, {
      fix: "Export it again with a newer opset",
    });
  }
  const rewriter = new Rewriter(document, options);
  let numMatmuls = 0;
  const nodes = document.nodes.flatMap((node) => {
    const product = findMatmul(node, document);
    if (product === undefined) return [node];
    numMatmuls++;
    onMatmul(node.name);
    return rewriter.replace(node, product);
  });
  const used = usedNames({ nodes, outputs: document.outputs });
  const tensors = [...document.tensors, ...rewriter.tensors].filter(([name]) => used.has(name));
  return { document: { ...document, nodes, tensors: new Map(tensors) }, numMatmuls };
}

interface MatmulNode {
  readonly weight: DocumentTensor;
  readonly isTransposed: boolean;
  /** Bias of Gemm; added at the end. */
  readonly bias: string | undefined;
}

/** Undefined for other nodes, and for those that stay unchanged. */
function findMatmul(node: DocumentNode, { tensors, inputs: replaceable }: OnnxDocument): MatmulNode | undefined {
  const { operator, domain, inputs } = node;
  const weight = tensors.get(inputs[1] ?? "");
  if (domain !== "" || weight === undefined || replaceable.has(weight.name)) return undefined;
  if (!isFiniteMatrix(weight)) return undefined;
  if (operator === "MatMul") return { weight, isTransposed: false, bias: undefined };
  if (operator !== "Gemm" || intOf(node, "transA", 0) !== 0) return undefined;
  if (floatOf(node, "alpha") !== 1 || floatOf(node, "beta") !== 1) return undefined;
  return { weight, isTransposed: intOf(node, "transB", 0) !== 0, bias: inputs[2] || undefined };
}

function isFiniteMatrix({ type, dims, data }: DocumentTensor): boolean {
  if (type !== ONNX_TYPES.FLOAT || dims.length !== 2 || data === undefined) return false;
  const numBytes = dims.reduce((product, size) => product * size, Float32Array.BYTES_PER_ELEMENT);
  return numBytes > 0 && data.byteLength === numBytes && floatsOf(data).every(Number.isFinite);
}

class Rewriter {
  readonly tensors = new Map<string, DocumentTensor>();
  readonly #options: MatrixOptions;
  readonly #taken: Set<string>;
  /** By activation name: nodes with one activation share its quantized values. */
  readonly #activations = new Map<string, readonly [integers: string, scale: string, zeroPoint: string]>();
  /** By weight name and orientation. */
  readonly #matrices = new Map<string, readonly [integers: string, scales: string, zeroPoint: string]>();
  /** Integers and scales of a weight are written one after the other. */
  #last: { readonly key: string; readonly matrix: IntegerMatrix } | undefined;

  constructor(document: OnnxDocument, options: MatrixOptions) {
    this.#options = options;
    this.#taken = usedNames(document);
    for (const { outputs } of document.nodes) for (const name of outputs) this.#taken.add(name);
  }

  replace(node: DocumentNode, product: MatmulNode): DocumentNode[] {
    const [activation = ""] = node.inputs;
    const [output = ""] = node.outputs;
    const name = this.#fresh(`${output}_quantized`);
    const nodes: OnnxNode[] = [];
    const add = (operator: string, inputs: readonly string[], result: string, to?: number): string => {
      const attributes = to === undefined ? {} : { to: { int: to } };
      nodes.push({ operator, name: `${result}_${operator}`, inputs, outputs: [result], attributes });
      return result;
    };
    const [integers, scale, zeroPoint] =
      this.#activations.get(activation) ?? this.#quantizeActivation(activation, nodes);
    const [matrix, scales, offset] = this.#matrixOf(product);
    const sums = add("MatMulInteger", [integers, matrix, zeroPoint, offset], `${name}_sums`);
    const floats = add("Cast", [sums], `${name}_floats`, ONNX_TYPES.FLOAT);
    const factors = add("Mul", [scale, scales], `${name}_factors`);
    const last = product.bias === undefined ? output : `${name}_product`;
    add("Mul", [floats, factors], last);
    if (product.bias !== undefined) add("Add", [last, product.bias], output);
    return nodes.map(newNode);
  }

  #quantizeActivation(activation: string, nodes: OnnxNode[]): readonly [string, string, string] {
    const name = this.#fresh(`${activation}_integers`);
    const outputs = [name, `${name}_scale`, `${name}_zero_point`] as const;
    nodes.push({ operator: "DynamicQuantizeLinear", name: `${name}_range`, inputs: [activation], outputs });
    this.#activations.set(activation, outputs);
    return outputs;
  }

  #matrixOf({ weight, isTransposed }: MatmulNode): readonly [string, string, string] {
    const key = `${isTransposed ? "T" : "N"}${weight.name}`;
    const known = this.#matrices.get(key);
    if (known !== undefined) return known;
    const [first = 0, second = 0] = weight.dims;
    const [rows, columns] = isTransposed ? [second, first] : [first, second];
    const { type, isReduced } = this.#options;
    const made = (): IntegerMatrix => this.#quantized(key, weight, isTransposed, columns);
    const name = this.#fresh(`${weight.name}_integers`);
    const names = [name, `${name}_scales`, `${name}_zero_point`] as const;
    const code = type === "uint8" ? ONNX_TYPES.UINT8 : ONNX_TYPES.INT8;
    // Computed while writing, one matrix at a time: a model may be larger than memory.
    const data = { byteLength: rows * columns, load: () => Promise.resolve(made().data) };
    const scales = { byteLength: 4 * columns, load: () => Promise.resolve(new Uint8Array(made().scales.buffer)) };
    const { zeroPoint } = quantizeColumns(new Float32Array(0), 0, { type, isReduced });
    for (const tensor of [
      { name, type: code, dims: [rows, columns], data },
      { name: names[1], type: ONNX_TYPES.FLOAT, dims: [columns], data: scales },
      { name: names[2], type: code, dims: [], data: Uint8Array.of(zeroPoint) },
    ]) {
      this.tensors.set(tensor.name, newTensor(tensor));
    }
    this.#matrices.set(key, names);
    return names;
  }

  #quantized(key: string, weight: DocumentTensor, isTransposed: boolean, columns: number): IntegerMatrix {
    if (this.#last?.key !== key) {
      this.#last = undefined;
      const [first = 0, second = 0] = weight.dims;
      const floats = floatsOf(weight.data ?? new Uint8Array(0));
      const values = isTransposed ? transpose(floats, first, second) : floats;
      this.#last = { key, matrix: quantizeColumns(values, columns, this.#options) };
    }
    return this.#last.matrix;
  }

  #fresh(wanted: string): string {
    let name = wanted;
    for (let count = 1; this.#taken.has(name); count++) name = `${wanted}_${count}`;
    this.#taken.add(name);
    return name;
  }
}

/** Copied, because file content may be unaligned. */
function floatsOf(data: Uint8Array): Float32Array {
  return new Float32Array(Uint8Array.from(data).buffer);
}

function intOf({ attributes }: DocumentNode, name: string, byDefault: number): number {
  return attributes.get(name)?.find(({ number }) => number === 3)?.value ?? byDefault;
}

/** 1 when absent. */
function floatOf({ attributes }: DocumentNode, name: string): number {
  const bytes = attributes.get(name)?.find(({ number }) => number === 2)?.bytes;
  return bytes === undefined ? 1 : new DataView(bytes.buffer, bytes.byteOffset, 4).getFloat32(0, true);
}
