/**
 * The models that follow GPT-3: GPT-J, GPT-NeoX, OPT, BLOOM, MPT and the first Falcons. Layer norms, MLPs without a gate,
 * and ALiBi or rotary positions. Source: transformers, modeling_gptj.py, modeling_gpt_neox.py, modeling_opt.py,
 * modeling_bloom.py, modeling_mpt.py and modeling_falcon.py.
 */
import type { HfFields } from "../../../formats/hf/config-fields.ts";
import type { WeightNames } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { LLAMA, NO_BIAS } from "../base-rows.ts";

const LAYER_NORM = { ...LLAMA, norm: "layer", isGated: false } as const;
const ALL_BIASES = { qkv: true, oProj: true, mlp: true, output: false } as const;

const GPTJ_NAMES: WeightNames = {
  prefixes: ["transformer.", ""],
  embedding: "wte",
  norm: "ln_f",
  output: "lm_head",
  layer: "h.#.",
  attentionNorm: "ln_1",
  qkv: ["attn.q_proj", "attn.k_proj", "attn.v_proj"],
  oProj: "attn.out_proj",
  mlpIn: ["mlp.fc_in"],
  mlpOut: "mlp.fc_out",
};

const GPTJ: Architecture = {
  ...LAYER_NORM,
  className: "GPTJForCausalLM",
  weights: GPTJ_NAMES,
  aliases: {
    hidden_size: "n_embd",
    intermediate_size: "n_inner",
    num_hidden_layers: "n_layer",
    num_attention_heads: "n_head",
    max_position_embeddings: "n_positions",
    hidden_act: "activation_function",
    rms_norm_eps: "layer_norm_epsilon",
  },
  defaults: { activation_function: "gelu_new", layer_norm_epsilon: 1e-5, rotary_dim: 64 },
  residual: "parallel",
  intermediateRatio: 4,
  isRopeInterleaved: true,
  biases: { ...NO_BIAS, mlp: true, output: true },
  noEffect: ["scale_attn_weights", "rotary"],
  variant: (fields) => ({ rotaryDims: fields.int("rotary_dim", { min: 2, max: 1024 }) }),
};

const NEOX_LAYER = {
  layer: "layers.#.",
  attentionNorm: "input_layernorm",
  hasGroupedQkv: true,
  mlpNorm: "post_attention_layernorm",
  mlpIn: ["mlp.dense_h_to_4h"],
  mlpOut: "mlp.dense_4h_to_h",
} as const;

const NEOX: Architecture = {
  ...LAYER_NORM,
  className: "GPTNeoXForCausalLM",
  weights: {
    ...NEOX_LAYER,
    prefixes: ["gpt_neox.", ""],
    embedding: "embed_in",
    norm: "final_layer_norm",
    output: "embed_out",
    qkv: ["attention.query_key_value"],
    oProj: "attention.dense",
  },
  aliases: { rms_norm_eps: "layer_norm_eps", partial_rotary_factor: "rotary_pct", rope_theta: "rotary_emb_base" },
  defaults: { hidden_act: "gelu", layer_norm_eps: 1e-5, rotary_pct: 0.25, attention_bias: true },
  biases: { ...ALL_BIASES, qkv: { field: "attention_bias" }, oProj: { field: "attention_bias" } },
  variant: (fields) => ({ residual: fields.boolean("use_parallel_residual", true) ? "parallel" : "sequential" }),
};

const OPT: Architecture = {
  ...LAYER_NORM,
  className: "OPTForCausalLM",
  weights: {
    prefixes: ["model.decoder.", "decoder."],
    embedding: "embed_tokens",
    positions: "embed_positions",
    positionsOffset: 2,
    norm: "final_layer_norm",
    output: "lm_head",
    layer: "layers.#.",
    attentionNorm: "self_attn_layer_norm",
    qkv: ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    oProj: "self_attn.out_proj",
    mlpNorm: "final_layer_norm",
    mlpIn: ["fc1"],
    mlpOut: "fc2",
  },
  aliases: { intermediate_size: "ffn_dim", hidden_act: "activation_function", rms_norm_eps: "layer_norm_eps" },
  defaults: { activation_function: "relu", tie_word_embeddings: true, enable_bias: true, layer_norm_eps: 1e-5 },
  requires: { do_layer_norm_before: true, _remove_final_layer_norm: false, layer_norm_elementwise_affine: true },
  positions: "learned",
  biases: {
    qkv: { field: "enable_bias" },
    oProj: { field: "enable_bias" },
    mlp: { field: "enable_bias" },
    output: false,
  },
  variant: (fields) => {
    const width = fields.int("hidden_size", { min: 1, max: 1 << 24 });
    const given = fields.get("word_embed_proj_dim") ?? width;
    if (given !== width) throw fields.refusal("word_embed_proj_dim", `hidden_size, ${width}`, given);
    return {};
  },
};

const BLOOM: Architecture = {
  ...LAYER_NORM,
  className: "BloomForCausalLM",
  weights: {
    ...NEOX_LAYER,
    prefixes: ["transformer.", ""],
    embedding: "word_embeddings",
    embeddingNorm: "word_embeddings_layernorm",
    norm: "ln_f",
    output: "lm_head",
    layer: "h.#.",
    qkv: ["self_attention.query_key_value"],
    oProj: "self_attention.dense",
  },
  aliases: {
    num_hidden_layers: "n_layer",
    num_attention_heads: "n_head",
    max_position_embeddings: "seq_length",
    rms_norm_eps: "layer_norm_epsilon",
  },
  defaults: { tie_word_embeddings: true, seq_length: 2048, layer_norm_epsilon: 1e-5 },
  requires: { apply_residual_connection_post_layernorm: false },
  activation: "gelu-tanh",
  intermediateRatio: 4,
  positions: "alibi",
  biases: ALL_BIASES,
  noEffect: [
    "slow_but_exact",
    "masked_softmax_fusion",
    "bias_dropout_fusion",
    "skip_bias_add",
    "skip_bias_add_qkv",
    "attention_softmax_in_fp32",
    "unk_token_id",
    "num_attention_heads",
    "offset_alibi",
    "n_inner",
  ],
};

const MPT: Architecture = {
  ...LAYER_NORM,
  className: "MptForCausalLM",
  weights: {
    prefixes: ["transformer.", ""],
    embedding: "wte",
    norm: "norm_f",
    output: "lm_head",
    layer: "blocks.#.",
    attentionNorm: "norm_1",
    qkv: ["attn.Wqkv"],
    oProj: "attn.out_proj",
    mlpNorm: "norm_2",
    mlpIn: ["ffn.up_proj"],
    mlpOut: "ffn.down_proj",
  },
  aliases: {
    hidden_size: "d_model",
    num_hidden_layers: "n_layers",
    num_attention_heads: "n_heads",
    max_position_embeddings: "max_seq_len",
    rms_norm_eps: "layer_norm_epsilon",
  },
  defaults: { tie_word_embeddings: true, layer_norm_epsilon: 1e-5 },
  requires: { no_bias: true, expansion_ratio: 4, learned_pos_emb: true, norm_type: "low_precision_layernorm" },
  intermediateRatio: 4,
  hasNormBias: false,
  activation: "gelu-erf",
  positions: "alibi",
  biases: NO_BIAS,
  noEffect: [
    "expansion_ratio",
    "learned_pos_emb",
    "emb_pdrop",
    "embedding_fraction",
    "init_config",
    "init_device",
    "verbose",
  ],
  variant: mptVariant,
};

const FALCON_NAMES: WeightNames = {
  ...NEOX_LAYER,
  prefixes: ["transformer.", ""],
  embedding: "word_embeddings",
  norm: "ln_f",
  output: "lm_head",
  layer: "h.#.",
  qkv: ["self_attention.query_key_value"],
  oProj: "self_attention.dense",
};

const FALCON: Architecture = {
  ...LAYER_NORM,
  className: "FalconForCausalLM",
  weights: FALCON_NAMES,
  aliases: { intermediate_size: "ffn_hidden_size", rms_norm_eps: "layer_norm_epsilon", hidden_act: "activation" },
  defaults: { activation: "gelu", tie_word_embeddings: true, max_position_embeddings: 2048, layer_norm_epsilon: 1e-5 },
  requires: { apply_residual_connection_post_layernorm: false },
  intermediateRatio: 4,
  biases: { qkv: { field: "bias" }, oProj: { field: "bias" }, mlp: { field: "bias" }, output: false },
  noEffect: ["multi_query", "num_kv_heads", "num_ln_in_parallel_attn", "parallel_attn"],
  variant: falconVariant,
};

export const GPTS: readonly Architecture[] = [GPTJ, NEOX, OPT, BLOOM, MPT, FALCON];

function mptVariant(fields: HfFields): Partial<Architecture> {
  const attention = fields.section("attn_config");
  for (const [name, expected] of Object.entries({ alibi: true, qk_ln: false, prefix_lm: false })) {
    const value = attention?.get(name) ?? expected;
    if (value !== expected) throw attention?.refusal(name, String(expected), value) ?? new Error(name);
  }
  const headDim =
    fields.int("hidden_size", { min: 1, max: 1 << 24 }) / fields.int("num_attention_heads", { min: 1, max: 4096 });
  return {
    qkvClip: attention?.get("clip_qkv") === undefined ? undefined : attention.positive("clip_qkv"),
    scales: { attention: attention?.positive("softmax_scale", 1 / Math.sqrt(headDim)) ?? 1 / Math.sqrt(headDim) },
  };
}

/** Three generations: 40B with groups and two norms, 7B with one key head and one norm, RW with ALiBi and neither. */
function falconVariant(fields: HfFields): Partial<Architecture> {
  const numHeads = fields.int("num_attention_heads", { min: 1, max: 4096 });
  const headDim = fields.int("hidden_size", { min: 1, max: 1 << 24 }) / numHeads;
  const isNew = fields.boolean("new_decoder_architecture", false);
  const isParallel = isNew || fields.boolean("parallel_attn", true);
  const numNorms = isNew ? fields.int("num_ln_in_parallel_attn", { min: 1, max: 2, default: 2 }) : 1;
  const { mlpNorm: _, ...oneNorm } = FALCON_NAMES;
  const twoNorms = { ...oneNorm, attentionNorm: "ln_attn", mlpNorm: "ln_mlp" };
  const parallelNames = numNorms === 2 ? twoNorms : oneNorm;
  const numKvHeads = fields.boolean("multi_query", true) ? 1 : numHeads;
  return {
    numKvHeads: isNew ? fields.int("num_kv_heads", { min: 1, max: numHeads, default: numHeads }) : numKvHeads,
    residual: isParallel ? "parallel" : "sequential",
    weights: isParallel ? parallelNames : FALCON_NAMES,
    // Scores are scaled after their fall with distance.
    ...(fields.boolean("alibi", false) ? { positions: "alibi" as const, alibiScale: 1 / Math.sqrt(headDim) } : {}),
  };
}
