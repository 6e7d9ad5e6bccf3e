/**
 * The vision encoders of Qwen2-VL (Wang et al. 2024) and Qwen2.5-VL (Bai et al. 2025) as ONNX graphs. They take patches
 * of several images with positions, which determine RoPE and masks. Squares of patches merge into visual tokens.
 */
import type { HfFields } from "@nereid/server/formats/hf/config-fields";
import { ONNX_TYPES } from "@nereid/server/formats/onnx/writer";
import type { Safetensors } from "@nereid/server/formats/tensors/safetensors";
import { EncoderWeights } from "./encoder-weights.ts";
import { type BuiltGraph, GraphBuilder } from "./graph-builder.ts";
import {
  imageMask,
  POSITION_COLUMNS,
  patchAttention,
  type RotaryTables,
  rotaryTables,
  windowMask,
} from "./patch-attention.ts";
import { activationOf, type EncoderContext, expectHeads, layerNorm, linear, rmsNorm } from "./transformer-graph.ts";

/** Differences between the releases. */
interface QwenVisionEncoder {
  readonly norm: (context: EncoderContext, value: string, name: string) => string;
  /** Configuration fields: width of the states, width of visual tokens. */
  readonly widthField: string;
  readonly outputField: string;
  readonly activation: string;
  /** A gated MLP with a configured width, or one of a multiple of the states' width. */
  readonly isGated: boolean;
  /** Most layers use window attention. */
  readonly hasWindows: boolean;
}

export type QwenKind = "qwen2_vl" | "qwen2_5_vl";

const ENCODERS: Readonly<Record<QwenKind, QwenVisionEncoder>> = {
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

/** Defaults of transformers for absent fields. */
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

export function isQwenVision(kind: unknown): kind is QwenKind {
  return typeof kind === "string" && Object.hasOwn(ENCODERS, kind);
}

/** `config` is that of the vision encoder. @throws ToolError naming what is missing or does not fit */
export function buildQwenVision(source: Safetensors, kind: QwenKind, config: HfFields): BuiltGraph {
  const encoder = ENCODERS[kind];
  const size = (name: string): number => config.int(name, { min: 1, max: MAX_SIZE });
  const hidden = size(encoder.widthField);
  const numHeads = expectHeads(size("num_heads"), hidden);
  const graph = new GraphBuilder();
  const weights = new EncoderWeights(source, ["visual.", "model.visual."], "patch_embed.proj.weight");
  const activation = activationOf(config.get("hidden_act") ?? encoder.activation);
  const intermediate = encoder.isGated ? size("intermediate_size") : hidden * size("mlp_ratio");
  const context = { graph, weights, sizes: { hidden, intermediate, numHeads, epsilon: EPSILON, activation } };
  const channels = size("in_channels");
  const [patch, frames, merge] = [size("patch_size"), size("temporal_patch_size"), size("spatial_merge_size")];
  const values = channels * frames * patch * patch;
  const pixels = graph.input({ name: "pixel_values", type: ONNX_TYPES.FLOAT, dims: [PATCHES, values] });
  const positions = graph.input({ name: "patch_positions", type: ONNX_TYPES.INT64, dims: [PATCHES, POSITION_COLUMNS] });
  graph.enter("positions");
  const theta = config.section("rope_parameters")?.positive("rope_theta", ROPE_THETA) ?? ROPE_THETA;
  const turn = rotaryTables(graph, positions, { theta, headSize: hidden / numHeads });
  const sameImage = imageMask(graph, positions);
  const windowSide = encoder.hasWindows ? Math.floor(size("window_size") / merge / patch) * merge : 0;
  const sameWindow = windowSide > 0 ? windowMask(graph, positions, windowSide) : sameImage;
  graph.enter("patch_embed");
  let states = embed(context, pixels, [hidden, channels, frames, patch, patch]);
  const numLayers = size("depth");
  const full = encoder.hasWindows ? fullLayers(config, numLayers) : undefined;
  for (let layer = 0; layer < numLayers; layer++) {
    graph.enter(`blocks.${layer}`);
    const mask = full === undefined || full.has(layer) ? sameImage : sameWindow;
    states = block(context, encoder, `blocks.${layer}`, states, { turn, mask });
  }
  graph.enter("merger");
  const wide = hidden * merge * merge;
  const joined = graph.node("Reshape", [encoder.norm(context, states, "merger.ln_q"), graph.ints([-1, wide])]);
  const active = activationOf("gelu")(graph, linear(context, joined, "merger.mlp.0", [wide, wide]));
  const width = size(encoder.outputField);
  const tokens = linear(context, active, "merger.mlp.2", [width, wide]);
  graph.output(tokens, { name: "visual_tokens", type: ONNX_TYPES.FLOAT, dims: [TOKENS, width] });
  return graph.build();
}

/** A patch equals the convolution's kernel size, so the convolution is a GEMM. */
function embed({ graph, weights, sizes }: EncoderContext, pixels: string, dims: readonly number[]): string {
  const filter = weights.get("patch_embed.proj.weight", dims);
  const rows = graph.node("Reshape", [
    graph.weight(filter.name, filter.dims, filter.data),
    graph.ints([sizes.hidden, -1]),
  ]);
  return graph.node("MatMul", [pixels, graph.node("Transpose", [rows], { perm: { ints: [1, 0] } })]);
}

function fullLayers(config: HfFields, numLayers: number): ReadonlySet<number> {
  const list = config.get("fullatt_block_indexes") ?? [7, 15, 23, 31];
  const isLayer = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 0;
  if (Array.isArray(list) && list.length <= numLayers && list.every(isLayer)) return new Set(list);
  throw config.refusal("fullatt_block_indexes", "numbers of layers", list);
}

function block(
  context: EncoderContext,
  encoder: QwenVisionEncoder,
  name: string,
  states: string,
  how: { readonly turn: RotaryTables; readonly mask: string },
): string {
  const { graph, sizes } = context;
  const { hidden, intermediate } = sizes;
  const mixed = patchAttention(context, `${name}.attn`, encoder.norm(context, states, `${name}.norm1`), how);
  const afterAttention = graph.node("Add", [states, mixed]);
  const normed = encoder.norm(context, afterAttention, `${name}.norm2`);
  const wide = (part: string): string => linear(context, normed, `${name}.mlp.${part}`, [intermediate, hidden]);
  const active = encoder.isGated
    ? graph.node("Mul", [sizes.activation(graph, wide("gate_proj")), wide("up_proj")])
    : sizes.activation(graph, wide("fc1"));
  const narrow = linear(context, active, `${name}.mlp.${encoder.isGated ? "down_proj" : "fc2"}`, [
    hidden,
    intermediate,
  ]);
  return graph.node("Add", [afterAttention, narrow]);
}
