/**
 * The table of architectures. A new one is a row here and the names of its weights; where it needs an op that no other
 * has, that op gets a folder in kernels/ and a switch in decoder-config.ts.
 */
import type { Architecture, WeightNames } from "./architecture.ts";

const LLAMA_WEIGHTS: WeightNames = {
  prefixes: ["model.", ""],
  embedding: "embed_tokens",
  norm: "norm",
  output: "lm_head",
  layer: "layers.#.",
  attentionNorm: "input_layernorm",
  qkv: ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
  attentionOut: "self_attn.o_proj",
  mlpNorm: "post_attention_layernorm",
  mlpIn: ["mlp.gate_proj", "mlp.up_proj"],
  mlpOut: "mlp.down_proj",
};

const HEAD_NORMS = ["self_attn.q_norm", "self_attn.k_norm"] as const;
const NO_BIAS = { qkv: false, attentionOut: false, mlp: false, output: false } as const;

const LLAMA: Architecture = {
  className: "LlamaForCausalLM",
  norm: "rms",
  residual: "sequential",
  isGated: true,
  positions: "rope",
  hasHeadNorm: false,
  scalesEmbedding: false,
  biases: {
    qkv: { field: "attention_bias" },
    attentionOut: { field: "attention_bias" },
    mlp: { field: "mlp_bias" },
    output: false,
  },
  window: { kind: "all" },
  weights: LLAMA_WEIGHTS,
};

const MISTRAL: Architecture = { ...LLAMA, className: "MistralForCausalLM", biases: NO_BIAS };

const MIXTRAL: Architecture = {
  ...MISTRAL,
  className: "MixtralForCausalLM",
  aliases: { moe_intermediate_size: "intermediate_size" },
  defaults: { norm_topk_prob: true, rms_norm_eps: 1e-5 },
  weights: {
    ...LLAMA_WEIGHTS,
    experts: {
      router: "block_sparse_moe.gate",
      mlpIn: ["block_sparse_moe.experts.#.w1", "block_sparse_moe.experts.#.w3"],
      mlpOut: "block_sparse_moe.experts.#.w2",
    },
  },
};

const QWEN2: Architecture = {
  ...LLAMA,
  className: "Qwen2ForCausalLM",
  biases: { ...NO_BIAS, qkv: true },
  window: { kind: "from-layer", isOnField: "use_sliding_window", field: "max_window_layers" },
};

const QWEN_EXPERTS = {
  router: "mlp.gate",
  mlpIn: ["mlp.experts.#.gate_proj", "mlp.experts.#.up_proj"],
  mlpOut: "mlp.experts.#.down_proj",
} as const;

const QWEN2_MOE: Architecture = {
  ...QWEN2,
  className: "Qwen2MoeForCausalLM",
  defaults: { norm_topk_prob: false, num_experts_per_tok: 4, qkv_bias: true },
  biases: { ...NO_BIAS, qkv: { field: "qkv_bias" } },
  weights: {
    ...LLAMA_WEIGHTS,
    experts: {
      ...QWEN_EXPERTS,
      sharedIn: ["mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj"],
      sharedOut: "mlp.shared_expert.down_proj",
      sharedGate: "mlp.shared_expert_gate",
    },
  },
};

const QWEN3: Architecture = {
  ...QWEN2,
  className: "Qwen3ForCausalLM",
  defaults: { head_dim: 128 },
  biases: { ...NO_BIAS, qkv: { field: "attention_bias" }, attentionOut: { field: "attention_bias" } },
  hasHeadNorm: true,
  weights: { ...LLAMA_WEIGHTS, headNorms: HEAD_NORMS },
};

const QWEN3_MOE: Architecture = {
  ...QWEN3,
  className: "Qwen3MoeForCausalLM",
  defaults: { head_dim: 128, norm_topk_prob: false, num_experts_per_tok: 8 },
  weights: { ...LLAMA_WEIGHTS, headNorms: HEAD_NORMS, experts: QWEN_EXPERTS },
};

const GEMMA: Architecture = {
  ...LLAMA,
  className: "GemmaForCausalLM",
  aliases: { hidden_act: "hidden_activation" },
  defaults: { tie_word_embeddings: true, head_dim: 256 },
  norm: "rms-plus-one",
  // The first files say "gelu" and were trained with its tanh form.
  activation: "gelu-tanh",
  scalesEmbedding: true,
  biases: { ...LLAMA.biases, mlp: false },
};

const SANDWICH_WEIGHTS: WeightNames = {
  ...LLAMA_WEIGHTS,
  attentionPostNorm: "post_attention_layernorm",
  mlpNorm: "pre_feedforward_layernorm",
  mlpPostNorm: "post_feedforward_layernorm",
};

const GEMMA2: Architecture = {
  ...GEMMA,
  className: "Gemma2ForCausalLM",
  defaults: {
    ...GEMMA.defaults,
    query_pre_attn_scalar: 256,
    attn_logit_softcapping: 50,
    final_logit_softcapping: 30,
    sliding_window: 4096,
  },
  requires: { use_bidirectional_attention: false },
  window: { kind: "all-but-every", n: 2 },
  weights: SANDWICH_WEIGHTS,
};

const GEMMA3: Architecture = {
  ...GEMMA2,
  className: "Gemma3ForCausalLM",
  defaults: {
    ...GEMMA.defaults,
    vocab_size: 262_208,
    num_attention_heads: 8,
    num_key_value_heads: 4,
    max_position_embeddings: 131_072,
    rope_theta: 1e6,
    rope_local_base_freq: 1e4,
    query_pre_attn_scalar: 256,
    sliding_window: 4096,
  },
  hasHeadNorm: true,
  window: { kind: "all-but-every", n: 6, field: "sliding_window_pattern" },
  weights: { ...SANDWICH_WEIGHTS, headNorms: HEAD_NORMS },
};

/** The text half of the models that also see. */
const GEMMA3_OF_MULTIMODAL: Architecture = {
  ...GEMMA3,
  className: "Gemma3ForConditionalGeneration",
  section: "text_config",
  weights: { ...GEMMA3.weights, prefixes: ["language_model.model.", "model.language_model."] },
};

const PHI3: Architecture = {
  ...LLAMA,
  className: "Phi3ForCausalLM",
  defaults: { rms_norm_eps: 1e-5, original_max_position_embeddings: 4096 },
  biases: NO_BIAS,
  weights: { ...LLAMA_WEIGHTS, qkv: ["self_attn.qkv_proj"], mlpIn: ["mlp.gate_up_proj"] },
};

const { mlpNorm: _, ...ONE_NORM_WEIGHTS } = LLAMA_WEIGHTS;

const PHI: Architecture = {
  ...LLAMA,
  className: "PhiForCausalLM",
  aliases: { rms_norm_eps: "layer_norm_eps" },
  defaults: { hidden_act: "gelu_new", partial_rotary_factor: 0.5, layer_norm_eps: 1e-5 },
  requires: { qk_layernorm: false },
  norm: "layer",
  residual: "parallel",
  isGated: false,
  biases: { qkv: true, attentionOut: true, mlp: true, output: true },
  weights: {
    ...ONE_NORM_WEIGHTS,
    norm: "final_layernorm",
    attentionOut: "self_attn.dense",
    mlpIn: ["mlp.fc1"],
    mlpOut: "mlp.fc2",
  },
};

const STARCODER2: Architecture = {
  ...LLAMA,
  className: "Starcoder2ForCausalLM",
  aliases: { rms_norm_eps: "norm_epsilon" },
  defaults: { hidden_act: "gelu_pytorch_tanh", use_bias: true, tie_word_embeddings: true, norm_epsilon: 1e-5 },
  norm: "layer",
  isGated: false,
  biases: {
    qkv: { field: "use_bias" },
    attentionOut: { field: "use_bias" },
    mlp: { field: "use_bias" },
    output: false,
  },
  weights: { ...LLAMA_WEIGHTS, mlpIn: ["mlp.c_fc"], mlpOut: "mlp.c_proj" },
};

const GPT2: Architecture = {
  ...LLAMA,
  className: "GPT2LMHeadModel",
  aliases: {
    rms_norm_eps: "layer_norm_epsilon",
    hidden_size: "n_embd",
    intermediate_size: "n_inner",
    num_hidden_layers: "n_layer",
    num_attention_heads: "n_head",
    max_position_embeddings: "n_positions",
    hidden_act: "activation_function",
  },
  defaults: { activation_function: "gelu_new", tie_word_embeddings: true, layer_norm_epsilon: 1e-5 },
  requires: { scale_attn_weights: true, scale_attn_by_inverse_layer_idx: false, add_cross_attention: false },
  norm: "layer",
  isGated: false,
  intermediateRatio: 4,
  positions: "learned",
  biases: { qkv: true, attentionOut: true, mlp: true, output: false },
  weights: {
    prefixes: ["transformer.", ""],
    embedding: "wte",
    positions: "wpe",
    norm: "ln_f",
    output: "lm_head",
    layer: "h.#.",
    attentionNorm: "ln_1",
    qkv: ["attn.c_attn"],
    attentionOut: "attn.c_proj",
    mlpNorm: "ln_2",
    mlpIn: ["mlp.c_fc"],
    mlpOut: "mlp.c_proj",
    isTransposed: true,
  },
};

/** By `className`. */
export const ARCHITECTURES: ReadonlyMap<string, Architecture> = new Map(
  [
    LLAMA,
    MISTRAL,
    MIXTRAL,
    QWEN2,
    QWEN2_MOE,
    QWEN3,
    QWEN3_MOE,
    GEMMA,
    GEMMA2,
    GEMMA3,
    GEMMA3_OF_MULTIMODAL,
    PHI,
    PHI3,
    STARCODER2,
    GPT2,
  ].map((architecture) => [architecture.className, architecture]),
);
