/** Writes zero-filled models as sparse files, which take no disk space until they are converted. */
import { open, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { SAFETENSORS_DTYPE_BYTES, type SafetensorsDtype } from "@nereid/server/formats/tensors/safetensors-header";
import { parseDecoderConfig } from "@nereid/server/models/config/parse-decoder-config";
import { describeWeights } from "@nereid/server/models/weights/weight-plan";
import { type SafetensorsEntry, safetensorsHeader } from "./safetensors-writer.ts";

export interface SyntheticModel {
  readonly hidden: number;
  readonly mlp: number;
  readonly vocab: number;
  readonly layers: number;
  /** A Llama by default. */
  readonly family?: keyof typeof FAMILIES;
  /** INT4, as in AWQ. */
  readonly isAwq?: boolean;
}

const HEADS = 16;
const KV_HEADS = 4;
const GROUP = 128;
const PER_WORD = 8;

const FAMILIES = {
  llama: { architectures: ["LlamaForCausalLM"] },
  phi3: { architectures: ["Phi3ForCausalLM"], pad_token_id: 0 },
  mixtral: { architectures: ["MixtralForCausalLM"], num_local_experts: 4, num_experts_per_tok: 2 },
  gpt2: { architectures: ["GPT2LMHeadModel"], activation_function: "gelu_new" },
} as const;

export async function writeSyntheticModel(directory: string, model: SyntheticModel): Promise<void> {
  const config = configOf(model);
  const plans = tensors(config, model.isAwq === true);
  const header = safetensorsHeader(plans);
  const numBytes = plans.reduce((sum, plan) => sum + planBytes(plan), 0);
  const file = await open(join(directory, "model.safetensors"), "w");
  await file.write(header);
  await file.truncate(header.byteLength + numBytes);
  await file.close();
  await writeFile(join(directory, "config.json"), JSON.stringify(config));
}

/** Bytes of the largest tensor, and of all. */
export function syntheticBytes(model: SyntheticModel): { readonly largest: number; readonly total: number } {
  const sizes = tensors(configOf(model), model.isAwq === true).map(planBytes);
  return { largest: Math.max(...sizes), total: sizes.reduce((sum, size) => sum + size, 0) };
}

function configOf({ hidden, mlp, vocab, layers, family = "llama", isAwq = false }: SyntheticModel) {
  const awq = { quant_method: "awq", bits: 4, group_size: GROUP, version: "gemm", zero_point: true };
  return {
    ...FAMILIES[family],
    vocab_size: vocab,
    hidden_size: hidden,
    n_embd: hidden,
    intermediate_size: mlp,
    n_inner: mlp,
    num_hidden_layers: layers,
    n_layer: layers,
    num_attention_heads: HEADS,
    n_head: HEADS,
    num_key_value_heads: KV_HEADS,
    max_position_embeddings: 2048,
    n_positions: 2048,
    tie_word_embeddings: true,
    torch_dtype: "bfloat16",
    ...(isAwq ? { quantization_config: awq } : {}),
  };
}

function tensors(config: Readonly<Record<string, unknown>>, isAwq: boolean): SafetensorsEntry[] {
  const at = { config: "config.json", generation: "generation_config.json" };
  const plain = { ...config, quantization_config: undefined };
  const { config: decoder, weights } = parseDecoderConfig({ config: plain, generation: undefined, at });
  const plans: SafetensorsEntry[] = [];
  describeWeights(decoder, weights, weights.prefixes[0] ?? "", ({ sources }) => {
    for (const { name, shape } of sources) {
      const isMatrix = isAwq && shape.length === 2 && name.includes(".layers.") && !name.endsWith(".gate.weight");
      if (isMatrix) plans.push(...awqTensors(name.slice(0, -".weight".length), shape));
      else plans.push({ name, dtype: "BF16", shape });
    }
  });
  return plans;
}

function awqTensors(name: string, [outputs = 0, inputs = 0]: readonly number[]): SafetensorsEntry[] {
  const part = (kind: string, dtype: SafetensorsDtype, shape: number[]): SafetensorsEntry => {
    return { name: `${name}.${kind}`, dtype, shape };
  };
  return [
    part("qweight", "I32", [inputs, outputs / PER_WORD]),
    part("qzeros", "I32", [inputs / GROUP, outputs / PER_WORD]),
    part("scales", "F16", [inputs / GROUP, outputs]),
  ];
}

function planBytes({ dtype, shape }: SafetensorsEntry): number {
  return SAFETENSORS_DTYPE_BYTES[dtype] * shape.reduce((product, size) => product * size, 1);
}
