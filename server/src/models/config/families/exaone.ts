/**
 * EXAONE 4: norms behind the branches and of heads; layers without a window have no positions where others have one. EXAONE
 * 3 is Llama under other names, EXAONE MoE has norms in front and experts. Source: transformers, modeling_exaone4.py and
 * modeling_exaone_moe.py; modeling_exaone.py of
 * LGAI-EXAONE/EXAONE-3.5-7.8B-Instruct.
 */
import type { HfFields } from "../../../formats/hf/config-fields.ts";
import { HEAD_NORMS, LLAMA_NAMES, type WeightNames } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { HEAD_NORM, LLAMA, NO_BIAS } from "../base-rows.ts";
import { DEEPSEEK_EXPERTS, deepseekRouting, listedExperts } from "./deepseek/deepseek-routing.ts";
import { POST_NORM_NAMES } from "./olmo.ts";

const EXAONE3_NAMES: WeightNames = {
  prefixes: ["transformer."],
  embedding: "wte",
  norm: "ln_f",
  output: "lm_head",
  layer: "h.#.",
  attentionNorm: "ln_1",
  qkv: ["attn.attention.q_proj", "attn.attention.k_proj", "attn.attention.v_proj"],
  oProj: "attn.attention.out_proj",
  mlpNorm: "ln_2",
  mlpIn: ["mlp.c_fc_0", "mlp.c_fc_1"],
  mlpOut: "mlp.c_proj",
};

export const EXAONES: readonly Architecture[] = [
  {
    ...LLAMA,
    className: "Exaone4ForCausalLM",
    weights: POST_NORM_NAMES,
    defaults: { rms_norm_eps: 1e-5 },
    headNorm: HEAD_NORM,
    biases: NO_BIAS,
    variant: exaone4Variant,
  },
  {
    ...LLAMA,
    className: "ExaoneMoeForCausalLM",
    weights: {
      ...LLAMA_NAMES,
      headNorms: HEAD_NORMS,
      experts: { ...DEEPSEEK_EXPERTS, correction: "mlp.e_score_correction_bias" },
    },
    aliases: { n_shared_experts: "num_shared_experts" },
    defaults: { rms_norm_eps: 1e-5, norm_topk_prob: true, num_experts_per_tok: 8, sliding_window: 4096 },
    headNorm: HEAD_NORM,
    biases: NO_BIAS,
    noEffect: ["first_k_dense_replace", "first_last_k_dense_replace", "num_nextn_predict_layers"],
    variant: (fields) => ({
      ...exaone4Variant(fields),
      ...deepseekRouting(fields),
      isExpertLayer: listedExperts(fields),
    }),
  },
  {
    ...LLAMA,
    className: "ExaoneForCausalLM",
    weights: EXAONE3_NAMES,
    aliases: { num_hidden_layers: "num_layers", hidden_act: "activation_function", rms_norm_eps: "layer_norm_epsilon" },
    defaults: { layer_norm_epsilon: 1e-5 },
    biases: NO_BIAS,
  },
];

/** The pattern is a number of layers, or a letter for each of them: "LLLG". */
function exaone4Variant(fields: HfFields): Partial<Architecture> {
  if (fields.get("sliding_window") === undefined) return { window: { kind: "none" } };
  const pattern = fields.get("sliding_window_pattern") ?? 4;
  const period = typeof pattern === "string" ? pattern.length : pattern;
  if (!Number.isSafeInteger(period) || Number(period) < 1)
    throw fields.refusal("sliding_window_pattern", "a number of layers or their letters", pattern);
  return {
    window: { kind: "all-but-every", n: Number(period) },
    withoutRope: (_layer, window) => window === undefined,
  };
}
