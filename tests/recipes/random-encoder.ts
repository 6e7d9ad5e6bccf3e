/** Small encoders with random weights, in folders as Hugging Face has them. Deterministic. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { safetensorsBytes, type TensorDraft } from "../../server/src/formats/safetensors-writer.test-support.ts";
import { generator } from "./random-model.ts";

const HIDDEN = 16;
const WIDE = 32;
const SCALE = 0.2;
type Shapes = Readonly<Record<string, readonly number[]>>;

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
  const vision = { hidden_size: HIDDEN, intermediate_size: WIDE, num_hidden_layers: 1, num_attention_heads: 2 };
  const layer = "vision_model.encoder.layers.0";
  writeModel(
    folder,
    { model_type: "clip", vision_config: { ...vision, image_size: 224, patch_size: 14 } },
    {
      "vision_model.embeddings.class_embedding": [HIDDEN],
      "vision_model.embeddings.patch_embedding.weight": [HIDDEN, 3, 14, 14],
      "vision_model.embeddings.position_embedding.weight": [257, HIDDEN],
      "visual_projection.weight": [768, HIDDEN],
      ...norm("vision_model.pre_layrnorm"),
      ...norm("vision_model.post_layernorm"),
      ...norm(`${layer}.layer_norm1`),
      ...norm(`${layer}.layer_norm2`),
      ...square(`${layer}.self_attn.q_proj`),
      ...square(`${layer}.self_attn.k_proj`),
      ...square(`${layer}.self_attn.v_proj`),
      ...square(`${layer}.self_attn.out_proj`),
      ...linear(`${layer}.mlp.fc1`, WIDE, HIDDEN),
      ...linear(`${layer}.mlp.fc2`, HIDDEN, WIDE),
    },
  );
}

function linear(name: string, rows: number, columns: number): Shapes {
  return { [`${name}.weight`]: [rows, columns], [`${name}.bias`]: [rows] };
}

function square(name: string): Shapes {
  return linear(name, HIDDEN, HIDDEN);
}

function norm(name: string): Shapes {
  return { [`${name}.weight`]: [HIDDEN], [`${name}.bias`]: [HIDDEN] };
}

function writeModel(folder: string, config: Readonly<Record<string, unknown>>, shapes: Shapes): void {
  mkdirSync(folder, { recursive: true });
  const random = generator();
  const tensors: Record<string, TensorDraft> = {};
  for (const [name, shape] of Object.entries(shapes)) {
    const length = shape.reduce((product, size) => product * size, 1);
    tensors[name] = { dtype: "F32", shape, data: Float32Array.from({ length }, () => random() * SCALE) };
  }
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeFileSync(join(folder, "model.safetensors"), safetensorsBytes(tensors));
}
