/** Phi-3.5-MoE: layer norms, biases, and two experts by SparseMixer. Source: transformers, modeling_phimoe.py. */
import { LLAMA_NAMES, MIXTRAL_EXPERTS } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { LLAMA, NO_BIAS } from "../base-rows.ts";

export const PHIMOE: readonly Architecture[] = [
  {
    ...LLAMA,
    className: "PhimoeForCausalLM",
    weights: { ...LLAMA_NAMES, experts: MIXTRAL_EXPERTS },
    aliases: { moe_intermediate_size: "intermediate_size" },
    defaults: { rms_norm_eps: 1e-5, num_experts_per_tok: 2, rope_theta: 1e6, router_jitter_noise: 0.01 },
    requires: { num_experts_per_tok: 2 },
    norm: "layer",
    // Beyond, transformers 5.24 goes on with the factors of short sequences, and the model's own code does not.
    isShortRopeOnly: true,
    biases: {
      ...NO_BIAS,
      qkv: { field: "attention_bias" },
      oProj: { field: "attention_bias" },
      output: { field: "lm_head_bias" },
    },
    noEffect: ["input_jitter_noise", "original_max_position_embeddings"],
    variant: (fields) => ({
      routing: {
        scores: "sparse-mixer",
        hasCorrection: false,
        scale: 1,
        tolerance: fields.positive("router_jitter_noise", 0.01),
      },
    }),
  },
];
