/**
 * DeepSeek-V2 and V3, Kimi K2, Moonlight, GLM-4.7-Flash: multi-head latent attention, experts in groups, dense layers in front.
 * Youtu-LLM and MiniCPM3 have that attention alone. Source: transformers, modeling_deepseek_v2.py, modeling_deepseek_v3.py,
 * modeling_glm4_moe_lite.py, modeling_youtu.py and modeling_minicpm3.py.
 */
import type { HfFields } from "../../../../formats/hf/config-fields.ts";
import { LLAMA_NAMES, type WeightNames } from "../../../../formats/hf/weight-names.ts";
import type { Architecture } from "../../architecture.ts";
import { LLAMA, NO_BIAS } from "../../base-rows.ts";
import type { LatentAttention } from "../../decoder-config.ts";
import { miniCpmScales } from "../minicpm.ts";
import { DEEPSEEK_EXPERTS, deepseekRouting, groupsOf, listedExperts } from "./deepseek-routing.ts";

const NAMES: WeightNames = {
  ...LLAMA_NAMES,
  qkv: ["self_attn.q_a_proj", "self_attn.kv_a_proj_with_mqa"],
  latent: {
    queryNorm: "self_attn.q_a_layernorm",
    queryUp: "self_attn.q_b_proj",
    keyNorm: "self_attn.kv_a_layernorm",
    keyValueUp: "self_attn.kv_b_proj",
  },
  experts: DEEPSEEK_EXPERTS,
};
/** Norms of the latents have their own. */
const LATENT_EPSILON = 1e-6;
const SIZE = { min: 1, max: 1 << 20 } as const;

const V3: Architecture = {
  ...LLAMA,
  className: "DeepseekV3ForCausalLM",
  weights: NAMES,
  aliases: { num_experts: "n_routed_experts" },
  defaults: { norm_topk_prob: true, num_experts_per_tok: 8, first_k_dense_replace: 3 },
  requires: { attention_bias: false, moe_layer_freq: 1, scoring_func: "sigmoid", topk_method: "noaux_tc" },
  biases: NO_BIAS,
  noEffect: ["ep_size", "num_nextn_predict_layers", "qk_head_dim", "num_key_value_heads", "seq_aux"],
  variant: (fields) => ({
    ...latentVariant(fields),
    ...deepseekRouting(fields),
    isRopeInterleaved: fields.boolean("rope_interleave", true),
  }),
};

const V2: Architecture = {
  ...V3,
  className: "DeepseekV2ForCausalLM",
  defaults: { norm_topk_prob: false, first_k_dense_replace: 0 },
  requires: {
    attention_bias: false,
    mlp_bias: false,
    moe_layer_freq: 1,
    scoring_func: "softmax",
    norm_topk_prob: false,
  },
  isRopeInterleaved: true,
  variant: (fields) => ({ ...latentVariant(fields), ...deepseekRouting(fields), routing: routingOfV2(fields) }),
};

/** GLM-4.7-Flash: the layers with experts are listed. */
const GLM_LITE: Architecture = {
  ...V3,
  className: "Glm4MoeLiteForCausalLM",
  defaults: { norm_topk_prob: true, num_experts_per_tok: 4, rms_norm_eps: 1e-5, routed_scaling_factor: 1.8 },
  variant: (fields) => ({ ...V3.variant?.(fields), isExpertLayer: listedExperts(fields) }),
};

const { experts: _, ...DENSE_NAMES } = NAMES;

/** DeepSeek-V3's attention over dense MLPs. */
const YOUTU: Architecture = {
  ...V3,
  className: "YoutuForCausalLM",
  weights: DENSE_NAMES,
  defaults: { tie_word_embeddings: true },
  requires: { attention_bias: false, mlp_bias: false },
  variant: (fields) => ({
    ...latentVariant(fields, DENSE_NAMES),
    isRopeInterleaved: fields.boolean("rope_interleave", true),
  }),
};

const MINICPM3: Architecture = {
  ...YOUTU,
  className: "MiniCPM3ForCausalLM",
  defaults: { tie_word_embeddings: true, rms_norm_eps: 1e-5 },
  noEffect: [...(V3.noEffect ?? []), "head_dim"],
  variant: (fields) => {
    const variant = latentVariant(fields, DENSE_NAMES);
    return { ...variant, scales: { ...variant.scales, ...miniCpmScales(fields) } };
  },
};

export const DEEPSEEKS: readonly Architecture[] = [V2, V3, GLM_LITE, YOUTU, MINICPM3];

function latentVariant(fields: HfFields, names: WeightNames = NAMES): Partial<Architecture> {
  const rope = fields.firstOf("rope_parameters", "rope_scaling");
  const latent: LatentAttention = {
    queryRank: fields.get("q_lora_rank") === undefined ? undefined : fields.int("q_lora_rank", SIZE),
    keyRank: fields.int("kv_lora_rank", SIZE),
    nopeDims: fields.int("qk_nope_head_dim", SIZE),
    ropeDims: fields.int("qk_rope_head_dim", SIZE),
    valueDims: fields.int("v_head_dim", SIZE),
    epsilon: LATENT_EPSILON,
  };
  const grown = rope?.get("mscale_all_dim") === undefined ? 1 : scoreGrowth(rope);
  const attention = grown ** 2 / Math.sqrt(latent.nopeDims + latent.ropeDims);
  const wholeQueries = { ...names, qkv: ["self_attn.q_proj", "self_attn.kv_a_proj_with_mqa"] };
  return {
    latent,
    rotaryDims: latent.ropeDims,
    scales: { attention },
    ...(latent.queryRank === undefined ? { weights: wholeQueries } : {}),
  };
}

/** Scores grow where YaRN extends the context. */
function scoreGrowth(rope: HfFields): number {
  const byAll = rope.get("mscale_all_dim");
  if (byAll === 0 || (rope.get("rope_type") ?? rope.get("type") ?? "default") === "default") return 1;
  const factor = rope.positive("factor");
  return factor <= 1 ? 1 : 0.1 * rope.positive("mscale_all_dim") * Math.log(factor) + 1;
}

function routingOfV2(fields: HfFields): NonNullable<Architecture["routing"]> {
  const method = fields.get("topk_method") ?? "greedy";
  if (method !== "greedy" && method !== "group_limited_greedy")
    throw fields.refusal("topk_method", '"greedy" or "group_limited_greedy"', method);
  return {
    scores: "softmax",
    hasCorrection: false,
    groups: method === "greedy" ? undefined : groupsOf(fields, 1),
    scale: fields.positive("routed_scaling_factor", 1),
  };
}
