/** Writes a model of zeros that takes no room on the disk until it is converted. */
import { open, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { safetensorsHeader, type TensorPlan } from "./safetensors-writer.ts";

export interface SyntheticModel {
  readonly hidden: number;
  readonly mlp: number;
  readonly vocab: number;
  readonly layers: number;
}

const HEADS = 16;
const KV_HEADS = 4;

export async function writeSyntheticModel(directory: string, model: SyntheticModel): Promise<void> {
  const plans = tensors(model);
  const header = safetensorsHeader(plans);
  const numBytes = plans.reduce((sum, { shape }) => sum + 2 * shape.reduce((a, b) => a * b, 1), 0);
  const file = await open(join(directory, "model.safetensors"), "w");
  await file.write(header);
  await file.truncate(header.byteLength + numBytes);
  await file.close();
  const config = {
    architectures: ["LlamaForCausalLM"],
    vocab_size: model.vocab,
    hidden_size: model.hidden,
    intermediate_size: model.mlp,
    num_hidden_layers: model.layers,
    num_attention_heads: HEADS,
    num_key_value_heads: KV_HEADS,
    max_position_embeddings: 2048,
    tie_word_embeddings: true,
    torch_dtype: "bfloat16",
  };
  await writeFile(join(directory, "config.json"), JSON.stringify(config));
}

function tensors({ hidden, mlp, vocab, layers }: SyntheticModel): TensorPlan[] {
  const plan = (name: string, ...shape: number[]): TensorPlan => ({ name, dtype: "BF16", shape });
  const kvWidth = (hidden / HEADS) * KV_HEADS;
  const all = Array.from({ length: layers }, (_, i) => [
    plan(`model.layers.${i}.input_layernorm.weight`, hidden),
    plan(`model.layers.${i}.post_attention_layernorm.weight`, hidden),
    plan(`model.layers.${i}.self_attn.q_proj.weight`, hidden, hidden),
    plan(`model.layers.${i}.self_attn.k_proj.weight`, kvWidth, hidden),
    plan(`model.layers.${i}.self_attn.v_proj.weight`, kvWidth, hidden),
    plan(`model.layers.${i}.self_attn.o_proj.weight`, hidden, hidden),
    plan(`model.layers.${i}.mlp.gate_proj.weight`, mlp, hidden),
    plan(`model.layers.${i}.mlp.up_proj.weight`, mlp, hidden),
    plan(`model.layers.${i}.mlp.down_proj.weight`, hidden, mlp),
  ]);
  return [plan("model.embed_tokens.weight", vocab, hidden), ...all.flat(), plan("model.norm.weight", hidden)];
}
