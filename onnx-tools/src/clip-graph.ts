/**
 * The text and vision encoders of CLIP (Radford et al. 2021) as ONNX graphs, with projections if the model has them.
 */
import type { HfFields, HfFieldsOptions } from "@nereid/server/formats/hf/config-fields";
import { ONNX_TYPES } from "@nereid/server/formats/onnx/writer";
import type { Safetensors } from "@nereid/server/formats/tensors/safetensors";
import { EncoderWeights } from "./encoder-weights.ts";
import { type BuiltGraph, GraphBuilder } from "./graph-builder.ts";
import {
  activationOf,
  attention,
  causalMask,
  type EncoderContext,
  type EncoderSizes,
  expectHeads,
  layerNorm,
  linear,
  paddingMask,
  projection,
} from "./transformer-graph.ts";

export interface ClipTextOptions {
  /**
   * Adds an input `attention_mask`: only the output of all token states needs it, the pooled vector ignores tokens
   * after its end.
   */
  readonly hasAttentionMask: boolean;
}

const MAX_SIZE = 1 << 20;
const BATCH = "batch_size";
const SEQUENCE = "sequence_length";
/** End-of-text id in early configurations, which differs from the id in texts; the end is then the largest id. */
const LEGACY_EOS = 2;

/** Defaults of transformers for absent fields. */
export const CLIP_TEXT_DEFAULTS: NonNullable<HfFieldsOptions["defaults"]> = {
  hidden_size: 512,
  intermediate_size: 2048,
  num_hidden_layers: 12,
  num_attention_heads: 8,
  eos_token_id: 49407,
};
export const CLIP_VISION_DEFAULTS: NonNullable<HfFieldsOptions["defaults"]> = {
  hidden_size: 768,
  intermediate_size: 3072,
  num_hidden_layers: 12,
  num_attention_heads: 12,
  num_channels: 3,
  image_size: 224,
  patch_size: 32,
};

/** `config` is that of the text encoder. */
export function buildClipText(
  source: Safetensors,
  config: HfFields,
  { hasAttentionMask }: ClipTextOptions,
): BuiltGraph {
  const graph = new GraphBuilder();
  const weights = new EncoderWeights(source, ["text_model.", ""], "embeddings.token_embedding.weight");
  const context: EncoderContext = { graph, weights, sizes: clipSizes(config) };
  const { hidden } = context.sizes;
  const tokens = (name: string): string => graph.input({ name, type: ONNX_TYPES.INT64, dims: [BATCH, SEQUENCE] });
  const ids = tokens("input_ids");
  const attentionMask = hasAttentionMask ? tokens("attention_mask") : undefined;
  graph.enter("text_model");
  const sequence = graph.sizes(ids, 1, 2);
  const causal = causalMask(graph, sequence);
  // The minimum of two masks, not their sum, which would overflow to infinity.
  const mask = attentionMask === undefined ? causal : graph.node("Min", [causal, paddingMask(graph, attentionMask)]);
  const embedded = embedTokens(context, ids, sequence);
  const states = layerNorm(context, clipLayers(context, config, embedded, mask), "final_layer_norm");
  const vector = graph.node("GatherND", [states, endOfText(graph, ids, config)], { batch_dims: { int: 1 } });
  finish(context, source, { vector, projection: "text_projection", name: "text_embeds" });
  graph.output(states, { name: "last_hidden_state", type: ONNX_TYPES.FLOAT, dims: [BATCH, SEQUENCE, hidden] });
  return graph.build();
}

/** `config` is that of the vision encoder. */
export function buildClipVision(source: Safetensors, config: HfFields): BuiltGraph {
  const graph = new GraphBuilder();
  const weights = new EncoderWeights(source, ["vision_model.", ""], "embeddings.class_embedding");
  const context: EncoderContext = { graph, weights, sizes: clipSizes(config) };
  const { hidden } = context.sizes;
  const image = config.int("image_size", { min: 1, max: MAX_SIZE });
  const patch = config.int("patch_size", { min: 1, max: image });
  const channels = config.int("num_channels", { min: 1, max: MAX_SIZE });
  const pixels = graph.input({ name: "pixel_values", type: ONNX_TYPES.FLOAT, dims: [BATCH, channels, image, image] });
  graph.enter("vision_model");
  const numTokens = Math.floor(image / patch) ** 2 + 1;
  const embedded = embedPatches(context, pixels, { channels, patch, numTokens });
  const first = layerNorm(context, embedded, "pre_layrnorm"); // the misspelling is the model's
  const states = clipLayers(context, config, first, undefined);
  const classToken = graph.node("Gather", [states, graph.int(0)], { axis: { int: 1 } });
  const vector = layerNorm(context, classToken, "post_layernorm");
  finish(context, source, { vector, projection: "visual_projection", name: "image_embeds" });
  graph.output(states, { name: "last_hidden_state", type: ONNX_TYPES.FLOAT, dims: [BATCH, numTokens, hidden] });
  return graph.build();
}

export function clipSizes(config: HfFields): EncoderSizes {
  const size = (name: string): number => config.int(name, { min: 1, max: MAX_SIZE });
  return {
    hidden: size("hidden_size"),
    intermediate: size("intermediate_size"),
    numHeads: expectHeads(size("num_attention_heads"), size("hidden_size")),
    epsilon: config.positive("layer_norm_eps", 1e-5),
    activation: activationOf(config.get("hidden_act") ?? "quick_gelu"),
  };
}

function embedTokens({ graph, weights, sizes }: EncoderContext, ids: string, sequence: string): string {
  const words = weights.get("embeddings.token_embedding.weight", [-1, sizes.hidden]);
  const places = weights.get("embeddings.position_embedding.weight", [-1, sizes.hidden]);
  const table = graph.weight(places.name, places.dims, places.data);
  const positions = graph.node("Slice", [table, graph.ints([0]), sequence, graph.ints([0])]);
  return graph.node("Add", [graph.node("Gather", [graph.weight(words.name, words.dims, words.data), ids]), positions]);
}

interface Patches {
  readonly channels: number;
  readonly patch: number;
  readonly numTokens: number;
}

/** Embeddings of all patches, after the class embedding. */
export function embedPatches(context: EncoderContext, pixels: string, { channels, patch, numTokens }: Patches): string {
  const { graph, weights, sizes } = context;
  const { hidden } = sizes;
  const filter = weights.get("embeddings.patch_embedding.weight", [hidden, channels, patch, patch]);
  const squares = graph.node("Conv", [pixels, graph.weight(filter.name, filter.dims, filter.data)], {
    kernel_shape: { ints: [patch, patch] },
    strides: { ints: [patch, patch] },
  });
  const rows = graph.node("Reshape", [squares, graph.ints([0, hidden, -1])]);
  const patches = graph.node("Transpose", [rows], { perm: { ints: [0, 2, 1] } });
  const first = weights.get("embeddings.class_embedding", [hidden]);
  const shape = graph.node("Concat", [graph.sizes(pixels, 0, 1), graph.ints([1, hidden])], { axis: { int: 0 } });
  const classToken = graph.node("Expand", [graph.weight(first.name, first.dims, first.data), shape]);
  const places = weights.get("embeddings.position_embedding.weight", [numTokens, hidden]);
  const all = graph.node("Concat", [classToken, patches], { axis: { int: 1 } });
  return graph.node("Add", [all, graph.weight(places.name, places.dims, places.data)]);
}

/** The states after the first `numLayers` layers, or after all. */
export function clipLayers(
  context: EncoderContext,
  config: HfFields,
  input: string,
  mask: string | undefined,
  numLayers: number = config.int("num_hidden_layers", { min: 1, max: MAX_SIZE }),
): string {
  const { graph, sizes } = context;
  let states = input;
  for (let layer = 0; layer < numLayers; layer++) {
    const name = `encoder.layers.${layer}`;
    graph.enter(`encoder/layers.${layer}`);
    const names = {
      query: `${name}.self_attn.q_proj`,
      key: `${name}.self_attn.k_proj`,
      value: `${name}.self_attn.v_proj`,
      out: `${name}.self_attn.out_proj`,
    };
    const mixed = attention(context, layerNorm(context, states, `${name}.layer_norm1`), names, mask);
    const afterAttention = graph.node("Add", [states, mixed]);
    const normed = layerNorm(context, afterAttention, `${name}.layer_norm2`);
    const wide = linear(context, normed, `${name}.mlp.fc1`, [sizes.intermediate, sizes.hidden]);
    const narrow = linear(context, sizes.activation(graph, wide), `${name}.mlp.fc2`, [
      sizes.hidden,
      sizes.intermediate,
    ]);
    states = graph.node("Add", [afterAttention, narrow]);
  }
  graph.enter("pooling");
  return states;
}

/** Position of each text's first end-of-text token, [batch, 1]. */
function endOfText(graph: GraphBuilder, ids: string, config: HfFields): string {
  const eos = config.int("eos_token_id", { min: 0, max: 2 ** 31 - 1 });
  const marks = eos === LEGACY_EOS ? ids : graph.node("Equal", [ids, graph.int(eos)]);
  return graph.node("ArgMax", [graph.cast(marks, ONNX_TYPES.INT32)], { axis: { int: 1 }, keepdims: { int: 1 } });
}

interface Ending {
  readonly vector: string;
  readonly projection: string;
  readonly name: string;
}

/** The projected vector; without a projection, the pooled output under transformers' name. */
function finish(context: EncoderContext, source: Safetensors, ending: Ending): void {
  const { graph, sizes } = context;
  const matrix = source.tensors.get(`${ending.projection}.weight`);
  if (matrix === undefined) {
    graph.output(ending.vector, { name: "pooler_output", type: ONNX_TYPES.FLOAT, dims: [BATCH, sizes.hidden] });
    return;
  }
  const [rows = 0] = matrix.shape;
  const outside = { ...context, weights: new EncoderWeights(source, [""], `${ending.projection}.weight`) };
  const projected = projection(outside, ending.vector, ending.projection, [rows, sizes.hidden]);
  graph.output(projected, { name: ending.name, type: ONNX_TYPES.FLOAT, dims: [BATCH, rows] });
}
