/**
 * ERNIE 4.5 with experts: a correction of the choice by softmax scores, shared experts, dense layers outside of a range. Source:
 * transformers, modeling_ernie4_5_moe.py.
 */
import type { HfFields } from "../../../../formats/hf/config-fields.ts";
import { LLAMA_NAMES } from "../../../../formats/hf/weight-names.ts";
import type { Architecture } from "../../architecture.ts";
import { LLAMA } from "../../base-rows.ts";
import { DEEPSEEK_EXPERTS } from "./deepseek-routing.ts";

const MAX_LAYERS = 4096;
const COUNT = { min: 0, max: MAX_LAYERS } as const;

export const ERNIE_MOES: readonly Architecture[] = [
  {
    ...LLAMA,
    className: "Ernie4_5_MoeForCausalLM",
    weights: {
      ...LLAMA_NAMES,
      experts: {
        ...DEEPSEEK_EXPERTS,
        correction: "mlp.moe_statics.e_score_correction_bias",
        isCorrectionRow: true,
      },
    },
    aliases: { num_experts: "moe_num_experts", num_experts_per_tok: "moe_k" },
    defaults: { tie_word_embeddings: true, rms_norm_eps: 1e-5, rope_theta: 5e5, moe_k: 6, norm_topk_prob: true },
    isRopeInterleaved: true,
    biases: {
      qkv: { field: "use_bias" },
      oProj: { field: "use_bias" },
      mlp: { field: "use_bias" },
      output: { field: "use_bias" },
    },
    routing: { scores: "softmax", hasCorrection: true, scale: 1 },
    noEffect: ["moe_norm_min"],
    variant: (fields) => ({ isExpertLayer: rangeOfExperts(fields), sharedExpertsSize: sharedSize(fields) }),
  },
];

function rangeOfExperts(fields: HfFields): (layer: number) => boolean {
  const first = fields.int("moe_layer_start_index", { ...COUNT, default: 1 });
  const last = fields.int("moe_layer_end_index", { ...COUNT, min: -1, default: -1 });
  const interval = fields.int("moe_layer_interval", { ...COUNT, min: 1, default: 1 });
  return (layer) => (layer + 1) % interval === 0 && layer >= first && (last === -1 || layer <= last);
}

function sharedSize(fields: HfFields): number {
  const width = fields.int("moe_intermediate_size", { min: 1, max: 1 << 24 });
  return width * fields.int("moe_num_shared_experts", { ...COUNT, default: 0 });
}
