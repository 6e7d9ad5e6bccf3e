/** Small encoders with random weights, in folders as Hugging Face has them. Deterministic. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  safetensorsBytes,
  type TensorDraft,
} from "../../server/src/formats/tensors/safetensors-writer.test-support.ts";
import { generator } from "./random-model.ts";

export const HIDDEN = 16;
export const WIDE = 32;
const SCALE = 0.2;
export type Shapes = Readonly<Record<string, readonly number[]>>;

/** BERT with the pooling of a sentence encoder. */
export function writeRandomMiniLm(folder: string): void {
  const vocabulary = 8000;
  const config = {
    model_type: "bert",
    vocab_size: vocabulary,
    hidden_size: HIDDEN,
    intermediate_size: WIDE,
    num_hidden_layers: 1,
    num_attention_heads: 2,
    hidden_act: "gelu",
  };
  writeModel(folder, config, {
    "embeddings.word_embeddings.weight": [vocabulary, HIDDEN],
    "embeddings.position_embeddings.weight": [512, HIDDEN],
    "embeddings.token_type_embeddings.weight": [2, HIDDEN],
    ...norm("embeddings.LayerNorm"),
    ...square("encoder.layer.0.attention.self.query"),
    ...square("encoder.layer.0.attention.self.key"),
    ...square("encoder.layer.0.attention.self.value"),
    ...square("encoder.layer.0.attention.output.dense"),
    ...norm("encoder.layer.0.attention.output.LayerNorm"),
    ...linear("encoder.layer.0.intermediate.dense", WIDE, HIDDEN),
    ...linear("encoder.layer.0.output.dense", HIDDEN, WIDE),
    ...norm("encoder.layer.0.output.LayerNorm"),
  });
  mkdirSync(join(folder, "1_Pooling"));
  writeFileSync(join(folder, "1_Pooling", "config.json"), JSON.stringify({ pooling_mode_mean_tokens: true }));
  writeFileSync(
    join(folder, "modules.json"),
    JSON.stringify([
      { type: "sentence_transformers.models.Pooling" },
      { type: "sentence_transformers.models.Normalize" },
    ]),
  );
}

/** CLIP as far as its vision encoder goes. */
export function writeRandomClip(folder: string): void {
  writeModel(
    folder,
    { model_type: "clip", vision_config: { ...CLIP_VISION, image_size: 224 } },
    { "visual_projection.weight": [768, HIDDEN], ...clipVision("vision_model.", 224) },
  );
}

export const CLIP_VISION = {
  hidden_size: HIDDEN,
  intermediate_size: WIDE,
  num_hidden_layers: 1,
  num_attention_heads: 2,
  patch_size: 14,
} as const;

/** The tensors of that vision encoder, for squares of `imageSize`. */
export function clipVision(prefix: string, imageSize: number): Shapes {
  const layer = `${prefix}encoder.layers.0`;
  return {
    [`${prefix}embeddings.class_embedding`]: [HIDDEN],
    [`${prefix}embeddings.patch_embedding.weight`]: [HIDDEN, 3, 14, 14],
    [`${prefix}embeddings.position_embedding.weight`]: [(imageSize / 14) ** 2 + 1, HIDDEN],
    ...norm(`${prefix}pre_layrnorm`),
    ...norm(`${prefix}post_layernorm`),
    ...norm(`${layer}.layer_norm1`),
    ...norm(`${layer}.layer_norm2`),
    ...square(`${layer}.self_attn.q_proj`),
    ...square(`${layer}.self_attn.k_proj`),
    ...square(`${layer}.self_attn.v_proj`),
    ...square(`${layer}.self_attn.out_proj`),
    ...linear(`${layer}.mlp.fc1`, WIDE, HIDDEN),
    ...linear(`${layer}.mlp.fc2`, HIDDEN, WIDE),
  };
}

export function linear(name: string, rows: number, columns: number): Shapes {
  return { [`${name}.weight`]: [rows, columns], [`${name}.bias`]: [rows] };
}

export function square(name: string): Shapes {
  return linear(name, HIDDEN, HIDDEN);
}

export function norm(name: string): Shapes {
  return { [`${name}.weight`]: [HIDDEN], [`${name}.bias`]: [HIDDEN] };
}

/** `decoder`: what is there beside tensors of these shapes. */
export function writeModel(
  folder: string,
  config: Readonly<Record<string, unknown>>,
  shapes: Shapes,
  decoder: Readonly<Record<string, TensorDraft>> = {},
): void {
  mkdirSync(folder, { recursive: true });
  const random = generator();
  const tensors: Record<string, TensorDraft> = { ...decoder };
  for (const [name, shape] of Object.entries(shapes)) {
    const length = shape.reduce((product, size) => product * size, 1);
    tensors[name] = { dtype: "F32", shape, data: Float32Array.from({ length }, () => random() * SCALE) };
  }
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeFileSync(join(folder, "model.safetensors"), safetensorsBytes(tensors));
}
