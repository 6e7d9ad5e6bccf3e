/**
 * The table of architectures. A new one is a file of families/; rows here are those that TensorRT-LLM checkpoints know too,
 * with the names of their weights in formats/hf/weight-names.ts.
 */
import { weightNamesOf } from "../../formats/hf/weight-names.ts";
import type { Architecture } from "./architecture.ts";
import { HEAD_NORM, LLAMA, NO_BIAS, type Row } from "./base-rows.ts";
import { DEBERTAS } from "./families/deberta.ts";
import { ENCODER_FAMILIES } from "./families/encoders.ts";
import { FAMILIES } from "./families/families.ts";

const MISTRAL: Row = { ...LLAMA, className: "MistralForCausalLM", biases: NO_BIAS };

const MIXTRAL: Row = {
  ...MISTRAL,
  className: "MixtralForCausalLM",
  aliases: { moe_intermediate_size: "intermediate_size" },
  defaults: { norm_topk_prob: true, rms_norm_eps: 1e-5 },
};

const QWEN2: Row = {
  ...LLAMA,
  className: "Qwen2ForCausalLM",
  biases: { ...NO_BIAS, qkv: true },
  window: { kind: "from-layer", isOnField: "use_sliding_window", field: "max_window_layers" },
};

const QWEN2_MOE: Row = {
  ...QWEN2,
  className: "Qwen2MoeForCausalLM",
  defaults: { norm_topk_prob: false, num_experts_per_tok: 4, qkv_bias: true },
  biases: { ...NO_BIAS, qkv: { field: "qkv_bias" } },
};

const QWEN3: Row = {
  ...QWEN2,
  className: "Qwen3ForCausalLM",
  defaults: { head_dim: 128 },
  biases: { ...NO_BIAS, qkv: { field: "attention_bias" }, oProj: { field: "attention_bias" } },
  headNorm: HEAD_NORM,
};

const QWEN3_MOE: Row = {
  ...QWEN3,
  className: "Qwen3MoeForCausalLM",
  defaults: { head_dim: 128, norm_topk_prob: false, num_experts_per_tok: 8 },
  noEffect: ["layer_types", "max_window_layers"],
  // All layers or none, in contrast to the dense models (transformers, modeling_qwen3_moe.py).
  variant: (fields) => {
    const hasWindow = fields.boolean("use_sliding_window", false) && fields.get("sliding_window") !== undefined;
    return { window: { kind: "layers", has: () => hasWindow } };
  },
};

const GEMMA: Row = {
  ...LLAMA,
  className: "GemmaForCausalLM",
  defaults: { tie_word_embeddings: true, head_dim: 256, hidden_act: "gelu_pytorch_tanh" },
  norm: "rms-plus-one",
  noEffect: ["hidden_activation"],
  // The first files say "gelu" and were trained with its tanh form (transformers, configuration_gemma.py).
  variant: (fields) => (fields.get("hidden_act") === "gelu" ? { activation: "gelu-tanh" } : {}),
  scalesEmbedding: true,
  biases: { ...LLAMA.biases, mlp: false },
};

/** From the second generation on, the other field counts, and "gelu" means itself. */
const GEMMA_ACTIVATION = {
  aliases: { hidden_act: "hidden_activation" },
  noEffect: ["hidden_act"],
  variant: () => ({}),
} as const;

const GEMMA2: Row = {
  ...GEMMA,
  ...GEMMA_ACTIVATION,
  className: "Gemma2ForCausalLM",
  defaults: {
    ...GEMMA.defaults,
    hidden_activation: "gelu_pytorch_tanh",
    query_pre_attn_scalar: 256,
    attn_logit_softcapping: 50,
    final_logit_softcapping: 30,
    sliding_window: 4096,
  },
  requires: { use_bidirectional_attention: false },
  window: { kind: "all-but-every", n: 2 },
};

const GEMMA3: Row = {
  ...GEMMA2,
  className: "Gemma3ForCausalLM",
  defaults: {
    ...GEMMA.defaults,
    hidden_activation: "gelu_pytorch_tanh",
    vocab_size: 262_208,
    num_attention_heads: 8,
    num_key_value_heads: 4,
    max_position_embeddings: 131_072,
    rope_theta: 1e6,
    rope_local_base_freq: 1e4,
    query_pre_attn_scalar: 256,
    sliding_window: 4096,
  },
  headNorm: HEAD_NORM,
  window: { kind: "all-but-every", n: 6, field: "sliding_window_pattern" },
};

/** The text half of the models that also see. */
const GEMMA3_OF_MULTIMODAL: Row = {
  ...GEMMA3,
  className: "Gemma3ForConditionalGeneration",
  section: "text_config",
};

/** Keys that whole models omit from their text part: the defaults of Llama's and Mistral's classes. */
const LLAMA_DEFAULTS = {
  vocab_size: 32_000,
  hidden_size: 4096,
  intermediate_size: 11_008,
  num_hidden_layers: 32,
  num_attention_heads: 32,
  max_position_embeddings: 2048,
  bos_token_id: 1,
  eos_token_id: 2,
};
const MISTRAL_DEFAULTS = {
  ...LLAMA_DEFAULTS,
  intermediate_size: 14_336,
  num_key_value_heads: 8,
  max_position_embeddings: 131_072,
};

/** LLaVA 1.5 and 1.6 over Llama, Vicuna or Mistral. */
const LLAVA: Row = {
  ...LLAMA,
  className: "LlavaForConditionalGeneration",
  section: "text_config",
  sectionTypes: { llama: LLAMA_DEFAULTS, mistral: MISTRAL_DEFAULTS },
};
const LLAVA_NEXT: Row = { ...LLAVA, className: "LlavaNextForConditionalGeneration" };

/** Qwen2 with rotary positions of three axes; both releases have the same language model. */
const QWEN2_VL: Row = {
  ...QWEN2,
  className: "Qwen2VLForConditionalGeneration",
  section: "text_config",
  isSectionOptional: true,
};
const QWEN25_VL: Row = { ...QWEN2_VL, className: "Qwen2_5_VLForConditionalGeneration" };

/** Qwen3 with positions of three axes that take turns: text alone, since images enter several layers. */
const QWEN3_VL: Row = { ...QWEN3, className: "Qwen3VLForConditionalGeneration", section: "text_config" };
const QWEN3_VL_MOE: Row = {
  ...QWEN3_MOE,
  className: "Qwen3VLMoeForConditionalGeneration",
  section: "text_config",
  defaults: { ...QWEN3_MOE.defaults, norm_topk_prob: true },
};

const PHI3: Row = {
  ...LLAMA,
  className: "Phi3ForCausalLM",
  defaults: { rms_norm_eps: 1e-5, original_max_position_embeddings: 4096 },
  biases: NO_BIAS,
};

const PHI: Row = {
  ...LLAMA,
  className: "PhiForCausalLM",
  aliases: { rms_norm_eps: "layer_norm_eps" },
  defaults: { hidden_act: "gelu_new", partial_rotary_factor: 0.5, layer_norm_eps: 1e-5 },
  requires: { qk_layernorm: false },
  norm: "layer",
  residual: "parallel",
  isGated: false,
  biases: { qkv: true, oProj: true, mlp: true, output: true },
};

const STARCODER2: Row = {
  ...LLAMA,
  className: "Starcoder2ForCausalLM",
  noEffect: ["mlp_type", "norm_type", "scale_attn_weights", "activation_function"],
  aliases: { rms_norm_eps: "norm_epsilon" },
  defaults: { hidden_act: "gelu_pytorch_tanh", use_bias: true, tie_word_embeddings: true, norm_epsilon: 1e-5 },
  norm: "layer",
  isGated: false,
  biases: {
    qkv: { field: "use_bias" },
    oProj: { field: "use_bias" },
    mlp: { field: "use_bias" },
    output: false,
  },
};

const GPT2: Row = {
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
  biases: { qkv: true, oProj: true, mlp: true, output: false },
};

/** The same with matrices the usual way round. */
const GPT: Row = { ...GPT2, className: "GPTForCausalLM" };

const OF_TABLES: readonly Architecture[] = [
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
  LLAVA,
  LLAVA_NEXT,
  QWEN2_VL,
  QWEN25_VL,
  QWEN3_VL,
  QWEN3_VL_MOE,
  PHI,
  PHI3,
  STARCODER2,
  GPT2,
  GPT,
].map((row) => ({ ...row, weights: weightNamesOf(row.className) }));

/** By `className`. */
export const ARCHITECTURES: ReadonlyMap<string, Architecture> = new Map(
  [...OF_TABLES, ...FAMILIES].map((row) => [row.className, row]),
);

/** Decoders whose files were saved without an output table, for embeddings. */
const WITHOUT_OUTPUT = ["Llama", "Mistral", "Qwen2", "Qwen3"].flatMap((family) => {
  const row = ARCHITECTURES.get(`${family}ForCausalLM`);
  return row === undefined ? [] : [{ ...row, className: `${family}Model` }];
});

/** Classes that give vectors alone, by `className`. */
export const ENCODERS: ReadonlyMap<string, Architecture> = new Map(
  [...ENCODER_FAMILIES, ...DEBERTAS, ...WITHOUT_OUTPUT].map((row) => [row.className, row]),
);
