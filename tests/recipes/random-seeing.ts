/**
 * Small models that see, with random weights and the widths between their parts that the models on the hub have: what their
 * configurations name. Deterministic.
 */
import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CLIP_VISION, clipVision, HIDDEN, linear, norm, type Shapes, WIDE, writeModel } from "./random-encoder.ts";
import { randomDecoder } from "./random-model.ts";

const VISION = fileURLToPath(new URL("../vision/", import.meta.url));
/** A decoder with few and narrow heads, whatever the width of its rows. */
const NARROW = {
  vocab_size: 96,
  intermediate_size: WIDE,
  num_hidden_layers: 1,
  num_attention_heads: 2,
  num_key_value_heads: 1,
  head_dim: HIDDEN,
  max_position_embeddings: 4096,
  rms_norm_eps: 1e-5,
  bos_token_id: 1,
  eos_token_id: 2,
};
const [LLAVA_WIDTH, QWEN_WIDTH] = [4096, 1536];
const STATISTICS = { image_mean: [0.48, 0.46, 0.41], image_std: [0.27, 0.26, 0.28] };

/** llava-v1.6-mistral-7b. */
export function writeRandomLlava(folder: string): void {
  const config = {
    architectures: ["LlavaNextForConditionalGeneration"],
    model_type: "llava_next",
    text_config: { ...NARROW, model_type: "mistral", hidden_size: LLAVA_WIDTH },
    vision_config: { ...CLIP_VISION, model_type: "clip_vision_model", image_size: 336 },
    vision_feature_layer: -1,
  };
  const shapes: Shapes = {
    image_newline: [LLAVA_WIDTH],
    ...clipVision("vision_tower.vision_model.", 336),
    ...linear("multi_modal_projector.linear_1", LLAVA_WIDTH, HIDDEN),
    ...linear("multi_modal_projector.linear_2", LLAVA_WIDTH, LLAVA_WIDTH),
  };
  writeModel(folder, config, shapes, randomDecoder(config));
  copyFileSync(join(VISION, "llava-next/tokenizer.json"), join(folder, "tokenizer.json"));
  writeProcessor(folder, {
    image_processor_type: "LlavaNextImageProcessor",
    image_grid_pinpoints: [
      [336, 672],
      [672, 336],
      [672, 672],
    ],
    size: { shortest_edge: 336 },
    crop_size: { height: 336, width: 336 },
    do_center_crop: true,
    do_normalize: true,
    do_pad: true,
    do_rescale: true,
    do_resize: true,
    resample: 3,
  });
}

/** Qwen2-VL-2B-Instruct, with its text beside everything else in config.json as the hub has it. */
export function writeRandomQwen(folder: string): void {
  const config = {
    ...NARROW,
    architectures: ["Qwen2VLForConditionalGeneration"],
    model_type: "qwen2_vl",
    hidden_size: QWEN_WIDTH,
    tie_word_embeddings: true,
    rope_theta: 1e6,
    rope_scaling: { type: "mrope", mrope_section: [2, 3, 3] },
    vision_config: { depth: 1, embed_dim: HIDDEN, hidden_size: QWEN_WIDTH, mlp_ratio: 2, num_heads: 2, in_chans: 3 },
  };
  const block = "visual.blocks.0";
  const shapes: Shapes = {
    "visual.patch_embed.proj.weight": [HIDDEN, 3, 2, 14, 14],
    ...norm(`${block}.norm1`),
    ...norm(`${block}.norm2`),
    ...linear(`${block}.attn.qkv`, 3 * HIDDEN, HIDDEN),
    ...linear(`${block}.attn.proj`, HIDDEN, HIDDEN),
    ...linear(`${block}.mlp.fc1`, 2 * HIDDEN, HIDDEN),
    ...linear(`${block}.mlp.fc2`, HIDDEN, 2 * HIDDEN),
    ...norm("visual.merger.ln_q"),
    ...linear("visual.merger.mlp.0", 4 * HIDDEN, 4 * HIDDEN),
    ...linear("visual.merger.mlp.2", QWEN_WIDTH, 4 * HIDDEN),
  };
  writeModel(folder, config, shapes, randomDecoder(config));
  copyFileSync(join(VISION, "qwen2-vl/tokenizer.json"), join(folder, "tokenizer.json"));
  writeProcessor(folder, {
    image_processor_type: "Qwen2VLImageProcessor",
    min_pixels: 3136,
    max_pixels: 12_845_056,
    patch_size: 14,
    temporal_patch_size: 2,
    merge_size: 2,
  });
}

/** As the hub has them: Qwen's was written by hand, and leaves out what its processor does anyway. */
function writeProcessor(folder: string, fields: object): void {
  writeFileSync(join(folder, "preprocessor_config.json"), JSON.stringify({ ...STATISTICS, ...fields }));
}
