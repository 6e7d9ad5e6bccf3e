/**
 * Attention among image patches as ONNX nodes: two-dimensional RoPE and block-diagonal masks (Qwen2-VL, Wang et al.
 * 2024).
 */

import { ToolError } from "@nereid/server/files/tool-error";
import { ONNX_TYPES } from "@nereid/server/formats/onnx/writer";
import type { GraphBuilder } from "./graph-builder.ts";
import { type EncoderContext, linear, MASKED } from "./transformer-graph.ts";

/** Columns of the positions. */
const [IMAGE, ROW, COLUMN] = [0, 1, 2];
export const POSITION_COLUMNS = 3;

/** Cosines and sines for queries and keys: [patches, 1, headSize]. */
export interface RotaryTables {
  readonly cos: string;
  readonly sin: string;
}

/** The first and third quarter of a head rotate by row, the others by column: [patches, 1, headSize]. */
export function rotaryTables(
  graph: GraphBuilder,
  positions: string,
  { theta, headSize }: { readonly theta: number; readonly headSize: number },
): RotaryTables {
  if (headSize % 4 !== 0)
    throw new ToolError(`config.json: num_heads: expected heads of a multiple of 4, got ${headSize}`);
  const frequencies = Array.from({ length: headSize / 4 }, (_, i) => 1 / theta ** ((4 * i) / headSize));
  const list = graph.floats("rope_frequencies", frequencies);
  const angles = [ROW, COLUMN].map((axis) => {
    const places = graph.cast(columnOf(graph, positions, axis), ONNX_TYPES.FLOAT);
    return graph.node("Mul", [places, list]);
  });
  const all = graph.node("Concat", [...angles, ...angles], { axis: { int: 1 } });
  const perHead = graph.node("Unsqueeze", [all, graph.ints([1])]);
  return { cos: graph.node("Cos", [perHead]), sin: graph.node("Sin", [perHead]) };
}

function columnOf(graph: GraphBuilder, positions: string, column: number): string {
  return graph.node("Slice", [positions, graph.ints([column]), graph.ints([column + 1]), graph.ints([1])]);
}

/**
 * Additive mask: patches attend to each other when all of `keys`, each [patches, 1], are equal. Result: [patches,
 * patches].
 */
function maskOf(graph: GraphBuilder, keys: readonly string[]): string {
  const equal = keys.map((key) =>
    graph.node("Equal", [key, graph.node("Transpose", [key], { perm: { ints: [1, 0] } })]),
  );
  const all = equal.reduce((both, each) => graph.node("And", [both, each]));
  return graph.node("Where", [all, graph.float(0), graph.float(MASKED)]);
}

/** Patches attend within their image. */
export function imageMask(graph: GraphBuilder, positions: string): string {
  return maskOf(graph, [columnOf(graph, positions, IMAGE)]);
}

/** Patches attend within their window. */
export function windowMask(graph: GraphBuilder, positions: string, side: number): string {
  const windows = [ROW, COLUMN].map((axis) => graph.node("Div", [columnOf(graph, positions, axis), graph.int(side)]));
  return maskOf(graph, [columnOf(graph, positions, IMAGE), ...windows]);
}

/** `name` is that of the layer's attention. Head by head, so that only one head's scores are in memory. */
export function patchAttention(
  context: EncoderContext,
  name: string,
  states: string,
  { turn, mask }: { readonly turn: RotaryTables; readonly mask: string },
): string {
  const { graph, sizes } = context;
  const { hidden, numHeads } = sizes;
  const headSize = hidden / numHeads;
  const qkv = linear(context, states, `${name}.qkv`, [3 * hidden, hidden]);
  const part = (index: number): string => {
    const columns = [graph.ints([index * hidden]), graph.ints([(index + 1) * hidden]), graph.ints([1])];
    return graph.node("Reshape", [graph.node("Slice", [qkv, ...columns]), graph.ints([0, numHeads, headSize])]);
  };
  const ordered = (value: string, perm: readonly number[]): string =>
    graph.node("Transpose", [value], { perm: { ints: perm } });
  const query = ordered(rotated(graph, part(0), turn, headSize), [1, 0, 2]);
  const key = ordered(rotated(graph, part(1), turn, headSize), [1, 2, 0]);
  const value = ordered(part(2), [1, 0, 2]);
  const heads = Array.from({ length: numHeads }, (_, head) => {
    const one = (all: string): string => graph.node("Gather", [all, graph.int(head)], { axis: { int: 0 } });
    const scaled = graph.node("Mul", [one(query), graph.float(1 / Math.sqrt(headSize))]);
    const scores = graph.node("Add", [graph.node("MatMul", [scaled, one(key)]), mask]);
    return graph.node("MatMul", [graph.node("Softmax", [scores], { axis: { int: -1 } }), one(value)]);
  });
  const mixed = graph.node("Concat", heads, { axis: { int: -1 } });
  return linear(context, mixed, `${name}.proj`, [hidden, hidden]);
}

/** RoPE: element i of a head is paired with element i + headSize / 2. */
function rotated(graph: GraphBuilder, value: string, { cos, sin }: RotaryTables, headSize: number): string {
  const half = (from: number, to: number): string =>
    graph.node("Slice", [value, graph.ints([from]), graph.ints([to]), graph.ints([2])]);
  const [first, second] = [half(0, headSize / 2), half(headSize / 2, headSize)];
  const other = graph.node("Concat", [graph.node("Neg", [second]), first], { axis: { int: -1 } });
  return graph.node("Add", [graph.node("Mul", [value, cos]), graph.node("Mul", [other, sin])]);
}
