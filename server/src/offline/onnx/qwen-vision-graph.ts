/**
 * The eyes of Qwen2-VL and Qwen2.5-VL as ONNX graphs. They take patches of pictures of any size, one after the other, and where
 * each lies: by that they turn queries and keys, and see no other picture. Squares of patches become one visual token each.
 */
import type { HfFields } from "../../formats/hf-config-fields.ts";
import { ONNX_TYPES } from "../../formats/onnx-writer.ts";
import type { Safetensors } from "../../formats/safetensors.ts";
import { ToolError } from "../tool-error.ts";
import { EncoderWeights } from "./encoder-weights.ts";
import { type BuiltGraph, GraphBuilder } from "./graph-builder.ts";
import {
  activationOf,
  type EncoderContext,
  expectHeads,
  layerNorm,
  linear,
  MASKED,
  rmsNorm,
} from "./transformer-graph.ts";

/** How the releases differ. */
interface QwenEye {
  readonly norm: (context: EncoderContext, value: string, name: string) => string;
  /** Fields of the configuration: width of the states, width of visual tokens. */
  readonly widthField: string;
  readonly outputField: string;
  readonly activation: string;
  /** With a gate, and a width that the configuration says; without one, a multiple of the states' width. */
  readonly isGated: boolean;
  /** Most layers see the patches of a window only. */
  readonly hasWindows: boolean;
}

export type QwenKind = "qwen2_vl" | "qwen2_5_vl";

const EYES: Readonly<Record<QwenKind, QwenEye>> = {
  qwen2_vl: {
    norm: layerNorm,
    widthField: "embed_dim",
    outputField: "hidden_size",
    activation: "quick_gelu",
    isGated: false,
    hasWindows: false,
  },
  qwen2_5_vl: {
    norm: rmsNorm,
    widthField: "hidden_size",
    outputField: "out_hidden_size",
    activation: "silu",
    isGated: true,
    hasWindows: true,
  },
};

/** What transformers takes where a configuration says nothing. */
export const QWEN_VISION_DEFAULTS: Readonly<Record<string, unknown>> = {
  depth: 32,
  embed_dim: 1280,
  num_heads: 16,
  mlp_ratio: 4,
  in_channels: 3,
  patch_size: 14,
  spatial_merge_size: 2,
  temporal_patch_size: 2,
  window_size: 112,
};

const PATCHES = "patches";
const TOKENS = "visual_tokens";
const MAX_SIZE = 1 << 20;
const EPSILON = 1e-6;
const ROPE_THETA = 10_000;
/** Columns of the positions. */
const [PICTURE, ROW, COLUMN, END] = [0, 1, 2, 3];

export function isQwenVision(kind: unknown): kind is QwenKind {
  return typeof kind === "string" && Object.hasOwn(EYES, kind);
}

interface Turn {
  readonly cos: string;
  readonly sin: string;
}

/** `config` is that of the eye. @throws ToolError naming what is missing or does not fit */
export function buildQwenVision(source: Safetensors, kind: QwenKind, config: HfFields): BuiltGraph {
  const eye = EYES[kind];
  const size = (name: string): number => config.int(name, { min: 1, max: MAX_SIZE });
  const hidden = size(eye.widthField);
  const numHeads = expectHeads(size("num_heads"), hidden);
  const graph = new GraphBuilder();
  const weights = new EncoderWeights(source, ["visual.", "model.visual."], "patch_embed.proj.weight");
  const activation = activationOf(config.get("hidden_act") ?? eye.activation);
  const intermediate = eye.isGated ? size("intermediate_size") : hidden * size("mlp_ratio");
  const context = { graph, weights, sizes: { hidden, intermediate, numHeads, epsilon: EPSILON, activation } };
  const channels = size("in_channels");
  const [patch, frames, merge] = [size("patch_size"), size("temporal_patch_size"), size("spatial_merge_size")];
  const values = channels * frames * patch * patch;
  const pixels = graph.input({ name: "pixel_values", type: ONNX_TYPES.FLOAT, dims: [PATCHES, values] });
  const positions = graph.input({ name: "patch_positions", type: ONNX_TYPES.INT64, dims: [PATCHES, END] });
  graph.enter("positions");
  const theta = config.section("rope_parameters")?.positive("rope_theta", ROPE_THETA) ?? ROPE_THETA;
  const turn = turnBy(graph, positions, { theta, headSize: hidden / numHeads });
  const samePicture = maskOf(graph, [columnOf(graph, positions, PICTURE)]);
  const windowSide = eye.hasWindows ? Math.floor(size("window_size") / merge / patch) * merge : 0;
  const sameWindow = windowSide > 0 ? windowMask(graph, positions, windowSide) : samePicture;
  graph.enter("patch_embed");
  let states = embed(context, pixels, [hidden, channels, frames, patch, patch]);
  const numLayers = size("depth");
  const full = eye.hasWindows ? fullLayers(config, numLayers) : undefined;
  for (let layer = 0; layer < numLayers; layer++) {
    graph.enter(`blocks.${layer}`);
    const mask = full === undefined || full.has(layer) ? samePicture : sameWindow;
    states = block(context, eye, `blocks.${layer}`, states, { turn, mask });
  }
  graph.enter("merger");
  const wide = hidden * merge * merge;
  const joined = graph.node("Reshape", [eye.norm(context, states, "merger.ln_q"), graph.ints([-1, wide])]);
  const active = activationOf("gelu")(graph, linear(context, joined, "merger.mlp.0", [wide, wide]));
  const width = size(eye.outputField);
  const tokens = linear(context, active, "merger.mlp.2", [width, wide]);
  graph.output(tokens, { name: "visual_tokens", type: ONNX_TYPES.FLOAT, dims: [TOKENS, width] });
  return graph.build();
}

/** A patch is the whole of what the filter sees: a product. */
function embed({ graph, weights, sizes }: EncoderContext, pixels: string, dims: readonly number[]): string {
  const filter = weights.get("patch_embed.proj.weight", dims);
  const rows = graph.node("Reshape", [
    graph.weight(filter.name, filter.dims, filter.data),
    graph.ints([sizes.hidden, -1]),
  ]);
  return graph.node("MatMul", [pixels, graph.node("Transpose", [rows], { perm: { ints: [1, 0] } })]);
}

/** The first quarter of a head and the third turn by the row, the others by the column: [patches, 1, headSize]. */
function turnBy(
  graph: GraphBuilder,
  positions: string,
  { theta, headSize }: { readonly theta: number; readonly headSize: number },
): Turn {
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

/** Patches see each other where all of `keys`, each [patches, 1], are equal: what is added to scores, [patches, patches]. */
function maskOf(graph: GraphBuilder, keys: readonly string[]): string {
  const equal = keys.map((key) =>
    graph.node("Equal", [key, graph.node("Transpose", [key], { perm: { ints: [1, 0] } })]),
  );
  const all = equal.reduce((both, each) => graph.node("And", [both, each]));
  return graph.node("Where", [all, graph.float(0), graph.float(MASKED)]);
}

function windowMask(graph: GraphBuilder, positions: string, side: number): string {
  const windows = [ROW, COLUMN].map((axis) => graph.node("Div", [columnOf(graph, positions, axis), graph.int(side)]));
  return maskOf(graph, [columnOf(graph, positions, PICTURE), ...windows]);
}

function fullLayers(config: HfFields, numLayers: number): ReadonlySet<number> {
  const list = config.get("fullatt_block_indexes") ?? [7, 15, 23, 31];
  const isLayer = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 0;
  if (Array.isArray(list) && list.length <= numLayers && list.every(isLayer)) return new Set(list);
  throw config.refusal("fullatt_block_indexes", "numbers of layers", list);
}

function block(
  context: EncoderContext,
  eye: QwenEye,
  name: string,
  states: string,
  how: { readonly turn: Turn; readonly mask: string },
): string {
  const { graph, sizes } = context;
  const { hidden, intermediate } = sizes;
  const mixed = attention(context, `${name}.attn`, eye.norm(context, states, `${name}.norm1`), how);
  const attended = graph.node("Add", [states, mixed]);
  const normed = eye.norm(context, attended, `${name}.norm2`);
  const wide = (part: string): string => linear(context, normed, `${name}.mlp.${part}`, [intermediate, hidden]);
  const active = eye.isGated
    ? graph.node("Mul", [sizes.activation(graph, wide("gate_proj")), wide("up_proj")])
    : sizes.activation(graph, wide("fc1"));
  const narrow = linear(context, active, `${name}.mlp.${eye.isGated ? "down_proj" : "fc2"}`, [hidden, intermediate]);
  return graph.node("Add", [attended, narrow]);
}

function attention(
  context: EncoderContext,
  name: string,
  states: string,
  { turn, mask }: { readonly turn: Turn; readonly mask: string },
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
  const query = ordered(turned(graph, part(0), turn, headSize), [1, 0, 2]);
  const key = ordered(turned(graph, part(1), turn, headSize), [1, 2, 0]);
  const value = ordered(part(2), [1, 0, 2]);
  // Head by head: scores of all heads at once would not fit for large pictures.
  const heads = Array.from({ length: numHeads }, (_, head) => {
    const one = (all: string): string => graph.node("Gather", [all, graph.int(head)], { axis: { int: 0 } });
    const scaled = graph.node("Mul", [one(query), graph.float(1 / Math.sqrt(headSize))]);
    const scores = graph.node("Add", [graph.node("MatMul", [scaled, one(key)]), mask]);
    return graph.node("MatMul", [graph.node("Softmax", [scores], { axis: { int: -1 } }), one(value)]);
  });
  const mixed = graph.node("Concat", heads, { axis: { int: -1 } });
  return linear(context, mixed, `${name}.proj`, [hidden, hidden]);
}

/** Element i of a head turns with element i + headSize / 2. */
function turned(graph: GraphBuilder, value: string, { cos, sin }: Turn, headSize: number): string {
  const half = (from: number, to: number): string =>
    graph.node("Slice", [value, graph.ints([from]), graph.ints([to]), graph.ints([2])]);
  const [first, second] = [half(0, headSize / 2), half(headSize / 2, headSize)];
  const other = graph.node("Concat", [graph.node("Neg", [second]), first], { axis: { int: -1 } });
  return graph.node("Add", [graph.node("Mul", [value, cos]), graph.node("Mul", [other, sin])]);
}
