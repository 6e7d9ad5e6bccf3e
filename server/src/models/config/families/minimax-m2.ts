/**
 * MiniMax-M2: norms over all queries and all keys, and experts by sigmoid scores with a correction of the choice. Source:
 * transformers, modeling_minimax_m2.py.
 */
import { HEAD_NORMS, LLAMA_NAMES, MIXTRAL_EXPERTS } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { LLAMA, NO_BIAS } from "../base-rows.ts";

export const MINIMAX_M2: readonly Architecture[] = [
  {
    ...LLAMA,
    className: "MiniMaxM2ForCausalLM",
    weights: {
      ...LLAMA_NAMES,
      headNorms: HEAD_NORMS,
      experts: { ...MIXTRAL_EXPERTS, correction: "block_sparse_moe.e_score_correction_bias" },
    },
    aliases: { moe_intermediate_size: "intermediate_size" },
    defaults: { head_dim: 128, norm_topk_prob: true, rope_theta: 5e6 },
    headNorm: { kind: "rms", scope: "row", isAfterRope: false },
    biases: NO_BIAS,
    routing: { scores: "sigmoid", hasCorrection: true, scale: 1 },
    variant: (fields) => {
      const rotaryDims = fields.get("rotary_dim");
      return rotaryDims === undefined ? {} : { rotaryDims: fields.int("rotary_dim", { min: 2, max: 1024 }) };
    },
  },
];
