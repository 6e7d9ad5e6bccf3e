/**
 * The vision encoders of LLaVA 1.5 and 1.6 (Liu et al. 2023, 2024) as ONNX graphs: CLIP up to the selected layer, and
 * the projector. Version 1.6 takes tiles, and orders their tokens as the image backend specifies.
 */

import { ToolError } from "@nereid/server/files/tool-error";
import type { HfFields } from "@nereid/server/formats/hf/config-fields";
import { ONNX_TYPES } from "@nereid/server/formats/onnx/writer";
import type { Safetensors } from "@nereid/server/formats/tensors/safetensors";
import { clipLayers, clipSizes, embedPatches } from "./clip-graph.ts";
import { EncoderWeights } from "./encoder-weights.ts";
import { type BuiltGraph, GraphBuilder } from "./graph-builder.ts";
import { activationOf, type EncoderContext, layerNorm, linear } from "./transformer-graph.ts";

const MAX_SIZE = 1 << 20;
const BATCH = "batch_size";
const ROWS = "visual_tokens";
const NEWLINE = "image_newline";
/** Names differ between releases of transformers. */
const TOWERS = [
  "vision_tower.vision_model.",
  "vision_tower.",
  "model.vision_tower.vision_model.",
  "model.vision_tower.",
];
const PROJECTORS = ["multi_modal_projector.", "model.multi_modal_projector."];

/**
 * `config` is that of the whole model, `vision` and `text` its sections. @throws ToolError for an unsupported vision
 * encoder
 */
export function buildLlavaVision(source: Safetensors, config: HfFields, vision: HfFields, text: HfFields): BuiltGraph {
  expectClip(vision);
  const graph = new GraphBuilder();
  const weights = new EncoderWeights(source, TOWERS, "embeddings.class_embedding");
  const context: EncoderContext = { graph, weights, sizes: clipSizes(vision) };
  const { hidden } = context.sizes;
  const image = vision.int("image_size", { min: 1, max: MAX_SIZE });
  const patch = vision.int("patch_size", { min: 1, max: image });
  const channels = vision.int("num_channels", { min: 1, max: MAX_SIZE });
  const numPatches = Math.floor(image / patch) ** 2;
  const pixels = graph.input({ name: "pixel_values", type: ONNX_TYPES.FLOAT, dims: [BATCH, channels, image, image] });
  graph.enter("vision_tower");
  const embedded = embedPatches(context, pixels, { channels, patch, numTokens: numPatches + 1 });
  const first = layerNorm(context, embedded, "pre_layrnorm"); // the misspelling is the model's
  const states = clipLayers(context, vision, first, undefined, layersUpTo(config, vision));
  const isFull = config.get("vision_feature_select_strategy") === "full";
  const seen = isFull
    ? states
    : graph.node("Slice", [states, graph.ints([1]), graph.ints([MAX_SIZE]), graph.ints([1])]);
  graph.enter("multi_modal_projector");
  const width = text.int("hidden_size", { min: 1, max: MAX_SIZE });
  const outside = { ...context, weights: new EncoderWeights(source, PROJECTORS, "linear_1.weight") };
  const wide = linear(outside, seen, "linear_1", [width, hidden]);
  const active = activationOf(config.get("projector_hidden_act") ?? "gelu")(graph, wide);
  const tokens = linear(outside, active, "linear_2", [width, width]);
  const numTokens = isFull ? numPatches + 1 : numPatches;
  if (config.get("model_type") !== "llava_next") {
    graph.output(tokens, { name: "visual_tokens", type: ONNX_TYPES.FLOAT, dims: [BATCH, numTokens, width] });
    return graph.build();
  }
  if (isFull) {
    throw new ToolError('config.json: vision_feature_select_strategy: expected "default" with tiles, got "full"');
  }
  outputInOrder(graph, new EncoderWeights(source, ["", "model."], NEWLINE), tokens, width);
  return graph.build();
}

/** Tokens of all tiles, followed by the newline embedding (index -1). */
function outputInOrder(graph: GraphBuilder, weights: EncoderWeights, tokens: string, width: number): void {
  const order = graph.input({ name: "visual_order", type: ONNX_TYPES.INT64, dims: [ROWS] });
  const newline = weights.get(NEWLINE, [width]);
  const end = graph.node("Unsqueeze", [graph.weight(newline.name, newline.dims, newline.data), graph.ints([0])]);
  const flat = graph.node("Reshape", [tokens, graph.ints([-1, width])]);
  const table = graph.node("Concat", [flat, end], { axis: { int: 0 } });
  const ordered = graph.node("Gather", [table, order], { axis: { int: 0 } });
  graph.output(ordered, { name: "visual_tokens", type: ONNX_TYPES.FLOAT, dims: [ROWS, width] });
}

/** -1 is the last layer, 0 the embeddings. */
function layersUpTo(config: HfFields, vision: HfFields): number {
  const numLayers = vision.int("num_hidden_layers", { min: 1, max: MAX_SIZE });
  const layer = config.get("vision_feature_layer") ?? -2;
  const count = typeof layer === "number" && layer < 0 ? numLayers + 1 + layer : layer;
  if (typeof count === "number" && Number.isInteger(count) && count >= 0 && count <= numLayers) return count;
  const text = `config.json: vision_feature_layer: expected a layer of ${numLayers}, got ${JSON.stringify(layer)}`;
  throw new ToolError(text);
}

function expectClip(vision: HfFields): void {
  const kind = vision.get("model_type") ?? "clip_vision_model";
  if (kind === "clip_vision_model") return;
  throw new ToolError(`config.json: vision_config.model_type: expected clip_vision_model, got ${JSON.stringify(kind)}`);
}
