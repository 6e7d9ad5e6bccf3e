/**
 * OLMo 2 and 3: norms behind attention and MLP in place of in front, and norms over all queries and all keys of a token.
 * OLMoE and FlexOlmo have such norms and experts. Source: transformers, modeling_olmo2.py, modeling_olmo3.py, modeling_olmoe.py
 * and modeling_flex_olmo.py.
 */
import { HEAD_NORMS, LLAMA_NAMES, QWEN_EXPERTS, type WeightNames } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { LLAMA, NO_BIAS } from "../base-rows.ts";
import type { HeadNorm } from "../decoder-config.ts";

const { attentionNorm: _, mlpNorm: __, ...WITHOUT_NORMS } = LLAMA_NAMES;

/** Norms behind the branches only. */
export const POST_NORM_NAMES: WeightNames = {
  ...WITHOUT_NORMS,
  headNorms: HEAD_NORMS,
  attentionPostNorm: "post_attention_layernorm",
  mlpPostNorm: "post_feedforward_layernorm",
};

const ROW_NORM: HeadNorm = { kind: "rms", scope: "row", isAfterRope: false };
const BIASES = { ...NO_BIAS, qkv: { field: "attention_bias" }, oProj: { field: "attention_bias" } };

const OLMO2: Architecture = {
  ...LLAMA,
  className: "Olmo2ForCausalLM",
  weights: POST_NORM_NAMES,
  defaults: { rms_norm_eps: 1e-5 },
  headNorm: ROW_NORM,
  biases: BIASES,
};

const OLMO3: Architecture = {
  ...OLMO2,
  className: "Olmo3ForCausalLM",
  defaults: { ...OLMO2.defaults, sliding_window: 4096, rope_theta: 5e5 },
  hasPlainLocalRope: true,
  window: { kind: "all-but-every", n: 4 },
};

const OLMOE: Architecture = {
  ...LLAMA,
  className: "OlmoeForCausalLM",
  weights: { ...LLAMA_NAMES, headNorms: HEAD_NORMS, experts: QWEN_EXPERTS },
  aliases: { moe_intermediate_size: "intermediate_size" },
  defaults: { rms_norm_eps: 1e-5, norm_topk_prob: false, num_experts_per_tok: 8 },
  headNorm: ROW_NORM,
  biases: BIASES,
  variant: (fields) => ({
    qkvClip: fields.get("clip_qkv") === undefined ? undefined : fields.positive("clip_qkv"),
  }),
};

const FLEX_OLMO: Architecture = {
  ...OLMO2,
  className: "FlexOlmoForCausalLM",
  weights: { ...POST_NORM_NAMES, experts: QWEN_EXPERTS },
  aliases: { moe_intermediate_size: "intermediate_size" },
  defaults: { rms_norm_eps: 1e-6, rope_theta: 5e5, norm_topk_prob: false, num_experts_per_tok: 5 },
};

export const OLMOS: readonly Architecture[] = [OLMO2, OLMO3, OLMOE, FLEX_OLMO];
