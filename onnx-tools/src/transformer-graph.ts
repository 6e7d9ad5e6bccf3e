/** ONNX nodes that BERT and CLIP share: linear layers, norms, activations, attention (Vaswani et al. 2017). */

import { ToolError } from "@nereid/server/files/tool-error";
import { ONNX_TYPES } from "@nereid/server/formats/onnx/writer";
import type { EncoderWeights } from "./encoder-weights.ts";
import type { GraphBuilder } from "./graph-builder.ts";

/** Traits of an encoder's layers. */
export interface EncoderSizes {
  readonly hidden: number;
  readonly intermediate: number;
  readonly numHeads: number;
  readonly epsilon: number;
  readonly activation: EncoderActivation;
}

export type EncoderActivation = (graph: GraphBuilder, value: string) => string;

export interface EncoderContext {
  readonly graph: GraphBuilder;
  readonly weights: EncoderWeights;
  readonly sizes: EncoderSizes;
}

/** Masked score: the smallest FP32 value, as in transformers. */
export const MASKED: number = -(2 - 2 ** -23) * 2 ** 127;

/** By the names of Hugging Face's configurations. */
const ACTIVATIONS: ReadonlyMap<string, EncoderActivation> = new Map<string, EncoderActivation>([
  ["gelu", gelu],
  ["gelu_new", tanhGelu],
  ["gelu_pytorch_tanh", tanhGelu],
  ["quick_gelu", (graph, value) => timesSigmoid(graph, value, graph.node("Mul", [value, graph.float(1.702)]))],
  ["silu", (graph, value) => timesSigmoid(graph, value, value)],
  ["relu", (graph, value) => graph.node("Relu", [value])],
]);

/** @throws ToolError when the hidden size is not divisible by the heads */
export function expectHeads(numHeads: number, hidden: number): number {
  if (hidden % numHeads === 0) return numHeads;
  throw new ToolError(`config.json: num_attention_heads: expected a divisor of ${hidden}, got ${numHeads}`);
}

/** @throws ToolError for an unknown name */
export function activationOf(name: unknown): EncoderActivation {
  const activation = typeof name === "string" ? ACTIVATIONS.get(name) : undefined;
  if (activation !== undefined) return activation;
  throw new ToolError(`config.json: hidden_act: expected one of ${[...ACTIVATIONS.keys()].join(", ")}, got ${name}`);
}

/** Linear layer with bias. */
export function linear(
  { graph, weights }: EncoderContext,
  value: string,
  name: string,
  [rows, columns]: readonly [rows: number, columns: number],
): string {
  const matrix = weights.transposed(`${name}.weight`, [rows, columns]);
  const bias = weights.get(`${name}.bias`, [rows]);
  const product = graph.node("MatMul", [value, graph.weight(matrix.name, matrix.dims, matrix.data)]);
  return graph.node("Add", [product, graph.weight(bias.name, bias.dims, bias.data)]);
}

/** Linear layer without bias. */
export function projection(
  { graph, weights }: EncoderContext,
  value: string,
  name: string,
  [rows, columns]: readonly [rows: number, columns: number],
): string {
  const matrix = weights.transposed(`${name}.weight`, [rows, columns]);
  return graph.node("MatMul", [value, graph.weight(matrix.name, matrix.dims, matrix.data)]);
}

export function layerNorm({ graph, weights, sizes }: EncoderContext, value: string, name: string): string {
  // Checkpoints from before 2019 call weight and bias gamma and beta.
  const [scaleName, shiftName] = weights.has(`${name}.weight`) ? ["weight", "bias"] : ["gamma", "beta"];
  const scale = weights.get(`${name}.${scaleName}`, [sizes.hidden]);
  const shift = weights.get(`${name}.${shiftName}`, [sizes.hidden]);
  const inputs = [
    value,
    graph.weight(scale.name, scale.dims, scale.data),
    graph.weight(shift.name, shift.dims, shift.data),
  ];
  return graph.node("LayerNormalization", inputs, { axis: { int: -1 }, epsilon: { float: sizes.epsilon } });
}

/** RMSNorm. */
export function rmsNorm({ graph, weights, sizes }: EncoderContext, value: string, name: string): string {
  const scale = weights.get(`${name}.weight`, [sizes.hidden]);
  const square = graph.node("ReduceMean", [graph.node("Mul", [value, value])], { axes: { ints: [-1] } });
  const root = graph.node("Sqrt", [graph.node("Add", [square, graph.float(sizes.epsilon)])]);
  const normed = graph.node("Div", [value, root]);
  return graph.node("Mul", [normed, graph.weight(scale.name, scale.dims, scale.data)]);
}

export interface AttentionNames {
  readonly query: string;
  readonly key: string;
  readonly value: string;
  readonly out: string;
}

/** `mask` is added to the scores [batch, heads, sequence, sequence]. */
export function attention(
  context: EncoderContext,
  states: string,
  names: AttentionNames,
  mask: string | undefined,
): string {
  const { graph, sizes } = context;
  const { hidden, numHeads } = sizes;
  const headSize = hidden / numHeads;
  const heads = (name: string, order: readonly number[]): string => {
    const product = linear(context, states, name, [hidden, hidden]);
    const split = graph.node("Reshape", [product, graph.ints([0, 0, numHeads, headSize])]);
    return graph.node("Transpose", [split], { perm: { ints: order } });
  };
  const query = heads(names.query, [0, 2, 1, 3]);
  const key = heads(names.key, [0, 2, 3, 1]);
  const value = heads(names.value, [0, 2, 1, 3]);
  const scaled = graph.node("Mul", [graph.node("MatMul", [query, key]), graph.float(1 / Math.sqrt(headSize))]);
  const scores = mask === undefined ? scaled : graph.node("Add", [scaled, mask]);
  const probabilities = graph.node("Softmax", [scores], { axis: { int: -1 } });
  const mixed = graph.node("Transpose", [graph.node("MatMul", [probabilities, value])], {
    perm: { ints: [0, 2, 1, 3] },
  });
  return linear(context, graph.node("Reshape", [mixed, graph.ints([0, 0, hidden])]), names.out, [hidden, hidden]);
}

/** Converts a 0/1 mask [batch, sequence] to an additive one, [batch, 1, 1, sequence]. */
export function paddingMask(graph: GraphBuilder, attentionMask: string): string {
  const kept = graph.cast(attentionMask, ONNX_TYPES.FLOAT);
  const masked = graph.node("Mul", [graph.node("Sub", [graph.float(1), kept]), graph.float(MASKED)]);
  return graph.node("Unsqueeze", [masked, graph.ints([1, 2])]);
}

/** Causal mask: [sequence, sequence]. `sequence` is a list with that size. */
export function causalMask(graph: GraphBuilder, sequence: string): string {
  const square = graph.node("Concat", [sequence, sequence], { axis: { int: 0 } });
  return graph.node("Trilu", [graph.filled(square, MASKED), graph.int(1)], { upper: { int: 1 } });
}

function gelu(graph: GraphBuilder, value: string): string {
  const erf = graph.node("Erf", [graph.node("Div", [value, graph.float(Math.SQRT2)])]);
  const sum = graph.node("Mul", [value, graph.node("Add", [erf, graph.float(1)])]);
  return graph.node("Mul", [sum, graph.float(0.5)]);
}

function tanhGelu(graph: GraphBuilder, value: string): string {
  const cube = graph.node("Mul", [graph.node("Mul", [value, value]), value]);
  const inner = graph.node("Add", [value, graph.node("Mul", [cube, graph.float(0.044715)])]);
  const tanh = graph.node("Tanh", [graph.node("Mul", [inner, graph.float(Math.sqrt(2 / Math.PI))])]);
  const half = graph.node("Mul", [value, graph.float(0.5)]);
  return graph.node("Mul", [half, graph.node("Add", [tanh, graph.float(1)])]);
}

function timesSigmoid(graph: GraphBuilder, value: string, inner: string): string {
  return graph.node("Mul", [value, graph.node("Sigmoid", [inner])]);
}
