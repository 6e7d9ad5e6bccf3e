/**
 * GLM-4: rotary positions of interleaved pairs in half of each head; the 0414 release has norms behind the branches too.
 * GLM-4.5 has experts as DeepSeek-V3 and the usual positions. ChatGLM 2 to 4 are GLM under other names. Source:
 * transformers, modeling_glm.py, modeling_glm4.py and modeling_glm4_moe.py; modeling_chatglm.py of zai-org/glm-4-9b.
 */
import type { HfFields } from "../../../formats/hf/config-fields.ts";
import { HEAD_NORMS, LLAMA_NAMES, type WeightNames } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { HEAD_NORM, LLAMA, NO_BIAS } from "../base-rows.ts";
import { DEEPSEEK_EXPERTS, deepseekRouting } from "./deepseek/deepseek-routing.ts";

const QKV_BIAS = { ...NO_BIAS, qkv: { field: "attention_bias" } };

const GLM: Architecture = {
  ...LLAMA,
  className: "GlmForCausalLM",
  weights: { ...LLAMA_NAMES, mlpIn: ["mlp.gate_up_proj"] },
  defaults: { attention_bias: true, head_dim: 128, partial_rotary_factor: 0.5, rms_norm_eps: 1.5625e-7 },
  isRopeInterleaved: true,
  biases: QKV_BIAS,
};

const GLM4: Architecture = {
  ...GLM,
  className: "Glm4ForCausalLM",
  weights: {
    ...GLM.weights,
    attentionPostNorm: "post_self_attn_layernorm",
    mlpNorm: "post_attention_layernorm",
    mlpPostNorm: "post_mlp_layernorm",
  },
};

const GLM4_MOE: Architecture = {
  ...LLAMA,
  className: "Glm4MoeForCausalLM",
  weights: { ...LLAMA_NAMES, headNorms: HEAD_NORMS, experts: DEEPSEEK_EXPERTS },
  aliases: { num_experts: "n_routed_experts" },
  defaults: {
    norm_topk_prob: true,
    num_experts_per_tok: 8,
    rms_norm_eps: 1e-5,
    first_k_dense_replace: 1,
    partial_rotary_factor: 0.5,
  },
  biases: QKV_BIAS,
  noEffect: ["num_nextn_predict_layers"],
  variant: (fields) => ({
    ...deepseekRouting(fields),
    headNorm: fields.boolean("use_qk_norm", false) ? HEAD_NORM : undefined,
  }),
};

const CHATGLM_NAMES: WeightNames = {
  prefixes: ["transformer."],
  embedding: "embedding.word_embeddings",
  norm: "encoder.final_layernorm",
  output: "transformer.output_layer",
  layer: "encoder.layers.#.",
  attentionNorm: "input_layernorm",
  qkv: ["self_attention.query_key_value"],
  oProj: "self_attention.dense",
  mlpNorm: "post_attention_layernorm",
  mlpIn: ["mlp.dense_h_to_4h"],
  mlpOut: "mlp.dense_4h_to_h",
};

const CHATGLM: Architecture = {
  ...GLM,
  className: "ChatGLMModel",
  weights: CHATGLM_NAMES,
  aliases: {
    vocab_size: "padded_vocab_size",
    num_hidden_layers: "num_layers",
    intermediate_size: "ffn_hidden_size",
    head_dim: "kv_channels",
    max_position_embeddings: "seq_length",
    rms_norm_eps: "layernorm_epsilon",
    attention_bias: "add_qkv_bias",
  },
  defaults: { layernorm_epsilon: 1e-5, add_qkv_bias: true },
  requires: {
    rmsnorm: true,
    post_layer_norm: true,
    original_rope: true,
    apply_residual_connection_post_layernorm: false,
    add_bias_linear: false,
  },
  noEffect: ["apply_query_key_layer_scaling", "interleaved_qkv", "multi_query_group_num", "prefix_projection"],
  variant: chatGlmVariant,
};

const CHATGLM_CONDITIONAL: Architecture = { ...CHATGLM, className: "ChatGLMForConditionalGeneration" };

export const GLMS: readonly Architecture[] = [GLM, GLM4, GLM4_MOE, CHATGLM, CHATGLM_CONDITIONAL];

function chatGlmVariant(fields: HfFields): Partial<Architecture> {
  const isGrouped = fields.boolean("multi_query_attention", false);
  const kv = isGrouped ? { numKvHeads: fields.int("multi_query_group_num", { min: 1, max: 4096 }) } : {};
  const headDim = fields.int("head_dim", { min: 4, max: 1024 });
  return { ...kv, rotaryDims: headDim / 2, ropeTheta: 10_000 * fields.positive("rope_ratio", 1) };
}
