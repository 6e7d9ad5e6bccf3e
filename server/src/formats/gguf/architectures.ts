/**
 * GGUF architectures and the Hugging Face classes that compute the same: names of tensors, order of rows, and metadata that
 * other architectures lack. Source: llama.cpp, gguf-py/gguf/constants.py, tensor_mapping.py and conversion scripts.
 */

import type { GgufArchitecture, OwnKey } from "./architecture.ts";
import { DEEPSEEK_MOE, deepseekFields, EXPERT_ROWS, QWEN_EXPERTS } from "./expert-architectures.ts";

const GEMMA2_NORMS = {
  post_attention_norm: "post_attention_layernorm",
  ffn_norm: "pre_feedforward_layernorm",
  post_ffw_norm: "post_feedforward_layernorm",
} as const;

const POST_NORMS = {
  post_attention_norm: "post_attention_layernorm",
  post_ffw_norm: "post_feedforward_layernorm",
} as const;

const MIXTRAL_EXPERTS = {
  ffn_gate_exps: "block_sparse_moe.experts.#.w1",
  ffn_down_exps: "block_sparse_moe.experts.#.w2",
  ffn_up_exps: "block_sparse_moe.experts.#.w3",
} as const;

/** The defaults are those of the first release. */
function miniCpmFields(own: OwnKey): Readonly<Record<string, unknown>> {
  const width = Number(own("embedding_length"));
  const headDim = own("attention.key_length") ?? width / Number(own("attention.head_count"));
  return {
    attention_multiplier: 1 / Math.sqrt(Number(headDim)),
    embedding_multiplier: own("embedding_scale") ?? 12,
    residual_multiplier: own("residual_scale") ?? 1.4 / Math.sqrt(Number(own("block_count"))),
    logits_scaling: own("logit_scale") ?? width / 256,
  };
}

/** A share of each head rotates. */
function partialRotary(own: OwnKey): Readonly<Record<string, unknown>> {
  const dims = own("rope.dimension_count");
  const headDim = own("attention.key_length") ?? Number(own("embedding_length")) / Number(own("attention.head_count"));
  return { partial_rotary_factor: dims === undefined ? undefined : Number(dims) / Number(headDim) };
}

function capsOf(own: OwnKey): Readonly<Record<string, unknown>> {
  return {
    attn_logit_softcapping: own("attn_logit_softcapping"),
    final_logit_softcapping: own("final_logit_softcapping"),
  };
}

/** The largest of each release scales by the width of all heads: their files do not say it. */
function gemmaScalar(own: OwnKey, layersOfLargest: number): Readonly<Record<string, unknown>> {
  const isLargest = own("block_count") === layersOfLargest;
  const width = Number(own("embedding_length")) / Number(own("attention.head_count"));
  return { query_pre_attn_scalar: isLargest ? width : own("attention.key_length") };
}

const GEMMA_2_27B_LAYERS = 46;
const GEMMA_3_27B_LAYERS = 62;

export const GGUF_ARCHITECTURES: ReadonlyMap<string, GgufArchitecture> = new Map<string, GgufArchitecture>([
  [
    "llama",
    {
      dense: "LlamaForCausalLM",
      experts: "MixtralForCausalLM",
      hasInterleavedRows: true,
      expertModules: MIXTRAL_EXPERTS,
      modules: { ffn_gate_inp: "block_sparse_moe.gate" },
    },
  ],
  ["qwen2", { dense: "Qwen2ForCausalLM" }],
  ["qwen3", { dense: "Qwen3ForCausalLM" }],
  [
    "qwen2moe",
    {
      dense: "Qwen2MoeForCausalLM",
      experts: "Qwen2MoeForCausalLM",
      expertModules: QWEN_EXPERTS,
      modules: {
        ffn_gate_inp: "mlp.gate",
        ffn_gate_inp_shexp: "mlp.shared_expert_gate",
        ffn_gate_shexp: "mlp.shared_expert.gate_proj",
        ffn_up_shexp: "mlp.shared_expert.up_proj",
        ffn_down_shexp: "mlp.shared_expert.down_proj",
      },
      fields: (own) => ({
        moe_intermediate_size: own("expert_feed_forward_length"),
        shared_expert_intermediate_size: own("expert_shared_feed_forward_length"),
        norm_topk_prob: false,
      }),
    },
  ],
  [
    "qwen3moe",
    {
      dense: "Qwen3MoeForCausalLM",
      experts: "Qwen3MoeForCausalLM",
      expertModules: QWEN_EXPERTS,
      modules: { ffn_gate_inp: "mlp.gate" },
      fields: (own) => ({ moe_intermediate_size: own("expert_feed_forward_length"), norm_topk_prob: true }),
    },
  ],
  [
    "qwen3vlmoe",
    {
      dense: "Qwen3MoeForCausalLM",
      experts: "Qwen3MoeForCausalLM",
      expertModules: QWEN_EXPERTS,
      modules: { ffn_gate_inp: "mlp.gate" },
      fields: (own) => ({ moe_intermediate_size: own("expert_feed_forward_length"), norm_topk_prob: true }),
    },
  ],
  ["gemma", { dense: "GemmaForCausalLM", hasWholeNorms: true, modules: { ffn_norm: "post_attention_layernorm" } }],
  [
    "gemma2",
    {
      dense: "Gemma2ForCausalLM",
      hasWholeNorms: true,
      modules: GEMMA2_NORMS,
      fields: (own) => ({ ...capsOf(own), ...gemmaScalar(own, GEMMA_2_27B_LAYERS) }),
    },
  ],
  [
    "gemma3",
    {
      dense: "Gemma3ForCausalLM",
      hasWholeNorms: true,
      modules: GEMMA2_NORMS,
      fields: (own) => ({
        ...capsOf(own),
        ...gemmaScalar(own, GEMMA_3_27B_LAYERS),
        rope_local_base_freq: own("rope.freq_base_swa") ?? 10_000,
      }),
    },
  ],
  [
    "granite",
    {
      dense: "GraniteForCausalLM",
      hasInterleavedRows: true,
      fields: (own) => ({
        attention_multiplier: own("attention.scale"),
        embedding_multiplier: own("embedding_scale"),
        residual_multiplier: own("residual_scale"),
        logits_scaling: own("logit_scale"),
      }),
    },
  ],
  ["smollm3", { dense: "SmolLM3ForCausalLM", hasInterleavedRows: true }],
  ["olmo2", { dense: "Olmo2ForCausalLM", modules: POST_NORMS }],
  ["exaone4", { dense: "Exaone4ForCausalLM", modules: POST_NORMS }],
  [
    "glm4",
    {
      dense: "Glm4ForCausalLM",
      modules: {
        post_attention_norm: "post_self_attn_layernorm",
        ffn_up: "mlp.gate_up_proj",
        post_ffw_norm: "post_mlp_layernorm",
      },
      hasPartialRotary: true,
      fields: partialRotary,
    },
  ],
  ["command-r", { dense: "CohereForCausalLM", fields: (own) => ({ logit_scale: own("logit_scale") }) }],
  ["cohere2", { dense: "Cohere2ForCausalLM", fields: (own) => ({ logit_scale: own("logit_scale") }) }],
  ["nemotron", { dense: "NemotronForCausalLM", hasWholeNorms: true, hasPartialRotary: true, fields: partialRotary }],
  ["arcee", { dense: "ArceeForCausalLM", hasInterleavedRows: true }],
  ["seed_oss", { dense: "SeedOssForCausalLM", modules: { post_attention_norm: "post_attention_layernorm" } }],
  ["ernie4_5", { dense: "Ernie4_5ForCausalLM" }],
  [
    "glm4moe",
    {
      ...DEEPSEEK_MOE,
      dense: "Glm4MoeForCausalLM",
      experts: "Glm4MoeForCausalLM",
      modules: { ...DEEPSEEK_MOE.modules, post_attention_norm: "post_attention_layernorm" },
      hasPartialRotary: true,
      fields: (own, has) => ({
        ...deepseekFields(own),
        ...partialRotary(own),
        use_qk_norm: has("attn_q_norm.weight"),
      }),
    },
  ],
  [
    "minimax-m2",
    {
      dense: "MiniMaxM2ForCausalLM",
      experts: "MiniMaxM2ForCausalLM",
      expertModules: MIXTRAL_EXPERTS,
      layerTensors: { "exp_probs_b.bias": "block_sparse_moe.e_score_correction_bias" },
      modules: { ffn_gate_inp: "block_sparse_moe.gate" },
      requires: { expert_gating_func: 2 },
      hasPartialRotary: true,
      fields: (own) => ({
        intermediate_size: own("expert_feed_forward_length") ?? own("feed_forward_length"),
        rotary_dim: own("rope.dimension_count"),
      }),
    },
  ],
  [
    "hunyuan-dense",
    {
      dense: "HunYuanDenseV1ForCausalLM",
      modules: { attn_q_norm: "self_attn.query_layernorm", attn_k_norm: "self_attn.key_layernorm" },
    },
  ],
  [
    "olmoe",
    {
      dense: "OlmoeForCausalLM",
      experts: "OlmoeForCausalLM",
      expertModules: QWEN_EXPERTS,
      modules: { ffn_gate_inp: "mlp.gate" },
      fields: (own) => ({ clip_qkv: own("attention.clamp_kqv") || undefined, norm_topk_prob: false }),
    },
  ],
  [
    "stablelm",
    {
      dense: "StableLmForCausalLM",
      unread: ["attn_q_norm.weight"], // norms of each head
      hasPartialRotary: true,
      fields: (own, has) => ({
        ...partialRotary(own),
        use_qkv_bias: has("attn_q.bias"),
        use_parallel_residual: !has("ffn_norm.weight"),
      }),
    },
  ],
  [
    "starcoder2",
    {
      dense: "Starcoder2ForCausalLM",
      modules: { ffn_up: "mlp.c_fc", ffn_down: "mlp.c_proj" },
      fields: (_own, has) => ({ use_bias: has("attn_q.bias") }),
    },
  ],
  [
    "phi3",
    {
      dense: "Phi3ForCausalLM",
      hasPartialRotary: true,
      modules: { attn_qkv: "self_attn.qkv_proj", ffn_up: "mlp.gate_up_proj" },
      fields: partialRotary,
    },
  ],
  [
    "exaone",
    {
      dense: "ExaoneForCausalLM",
      layer: "transformer.h.#.",
      whole: {
        "token_embd.weight": "transformer.wte.weight",
        "output_norm.weight": "transformer.ln_f.weight",
      },
      modules: {
        attn_norm: "ln_1",
        attn_q: "attn.attention.q_proj",
        attn_k: "attn.attention.k_proj",
        attn_v: "attn.attention.v_proj",
        attn_output: "attn.attention.out_proj",
        ffn_norm: "ln_2",
        ffn_gate: "mlp.c_fc_0",
        ffn_up: "mlp.c_fc_1",
        ffn_down: "mlp.c_proj",
      },
      fields: (own) => ({
        num_layers: own("block_count"),
        activation_function: "silu",
        layer_norm_epsilon: own("attention.layer_norm_rms_epsilon"),
      }),
    },
  ],
  [
    "gpt-oss",
    {
      dense: "GptOssForCausalLM",
      experts: "GptOssForCausalLM",
      expertModules: QWEN_EXPERTS,
      layerTensors: { "attn_sinks.weight": "self_attn.sinks" },
      modules: { ffn_gate_inp: "mlp.router", post_attention_norm: "post_attention_layernorm" },
      // The scaling was trained so; files do not say it.
      scaling: { truncate: false },
      fields: (own) => ({ intermediate_size: own("expert_feed_forward_length") }),
    },
  ],
  ["qwen3vl", { dense: "Qwen3ForCausalLM" }],
  // Their rows are Llama's here, in parts of their own.
  ["internlm2", { dense: "LlamaForCausalLM", hasInterleavedRows: true }],
  ["minicpm", { dense: "GraniteForCausalLM", hasInterleavedRows: true, fields: miniCpmFields }],
  ["jais2", { dense: "Jais2ForCausalLM" }],
  ...EXPERT_ROWS,
]);
