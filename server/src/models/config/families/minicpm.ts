/**
 * MiniCPM: Llama with factors of embeddings, branches and logits. Source: modeling_minicpm.py of openbmb/MiniCPM-2B-sft-bf16; for the
 * third release transformers, modeling_minicpm3.py.
 */
import type { HfFields } from "../../../formats/hf/config-fields.ts";
import { LLAMA_NAMES } from "../../../formats/hf/weight-names.ts";
import type { Architecture, Scales } from "../architecture.ts";
import { LLAMA, NO_BIAS } from "../base-rows.ts";

export const MINICPMS: readonly Architecture[] = [
  {
    ...LLAMA,
    className: "MiniCPMForCausalLM",
    weights: LLAMA_NAMES,
    defaults: { tie_word_embeddings: true },
    biases: { ...NO_BIAS, qkv: { field: "attention_bias" }, oProj: { field: "attention_bias" } },
    variant: (fields) => ({ scales: miniCpmScales(fields) }),
  },
];

/** The width of the model over that of the one whose learning rates were taken over, and the root of the depth. */
export function miniCpmScales(fields: HfFields): Scales {
  const width = fields.int("hidden_size", { min: 1, max: 1 << 24 });
  const depth = fields.int("num_hidden_layers", { min: 1, max: 4096 });
  const hasDepth = fields.get("scale_depth") !== undefined;
  return {
    embedding: fields.positive("scale_emb", 1),
    residual: hasDepth ? fields.positive("scale_depth") / Math.sqrt(depth) : 1,
    logits: fields.positive("dim_model_base", width) / width,
  };
}
