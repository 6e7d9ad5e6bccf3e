/**
 * Encoders: BERT, RoBERTa and XLM-R, ModernBERT, NomicBERT, and Gemma 3 as embedding model. Source: transformers,
 * modeling_bert.py, modeling_roberta.py, modeling_modernbert.py, modeling_nomic_bert.py and modeling_gemma3.py.
 */
import type { HfFields } from "../../../formats/hf/config-fields.ts";
import { type WeightNames, weightNamesOf } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { HEAD_NORM, LLAMA, NO_BIAS } from "../base-rows.ts";

const BERT_NAMES: WeightNames = {
  prefixes: ["bert.", ""],
  embedding: "embeddings.word_embeddings",
  positions: "embeddings.position_embeddings",
  segments: "embeddings.token_type_embeddings",
  postNorms: ["embeddings.LayerNorm", "output.LayerNorm"],
  norm: "",
  output: "",
  layer: "encoder.layer.#.",
  qkv: ["attention.self.query", "attention.self.key", "attention.self.value"],
  oProj: "attention.output.dense",
  mlpNorm: "attention.output.LayerNorm",
  mlpIn: ["intermediate.dense"],
  mlpOut: "output.dense",
};

const ENCODER: Omit<Architecture, "weights" | "className"> = {
  ...LLAMA,
  norm: "layer",
  isGated: false,
  isCausal: false,
  window: { kind: "none" },
  noEffect: ["classifier_*", "pooler_*", "num_labels", "problem_type", "max_trained_positions"],
};

const BERT: Architecture = {
  ...ENCODER,
  className: "BertModel",
  weights: BERT_NAMES,
  residual: "post-norm",
  positions: "learned",
  aliases: { rms_norm_eps: "layer_norm_eps" },
  defaults: {
    hidden_act: "gelu",
    layer_norm_eps: 1e-12,
    max_position_embeddings: 512,
    type_vocab_size: 2,
  },
  requires: { position_embedding_type: "absolute", is_decoder: false, add_cross_attention: false },
  biases: { qkv: true, oProj: true, mlp: true, output: false },
};

/** Positions begin behind the one of padding. */
const ROBERTA: Architecture = {
  ...BERT,
  className: "RobertaModel",
  weights: { ...BERT_NAMES, prefixes: ["roberta.", ""], positionsOffset: 2 },
  hasUnusedPositions: true,
  defaults: { ...BERT.defaults, max_position_embeddings: 514, layer_norm_eps: 1e-5, pad_token_id: 1 },
  requires: { ...BERT.requires, pad_token_id: 1 },
};

const MODERN_BERT: Architecture = {
  ...ENCODER,
  className: "ModernBertModel",
  weights: {
    prefixes: ["model.", ""],
    embedding: "embeddings.tok_embeddings",
    embeddingNorm: "embeddings.norm",
    norm: "final_norm",
    output: "",
    layer: "layers.#.",
    attentionNorm: "attn_norm",
    hasBareFirstLayer: true,
    qkv: ["attn.Wqkv"],
    oProj: "attn.Wo",
    mlpNorm: "mlp_norm",
    mlpIn: ["mlp.Wi"],
    mlpOut: "mlp.Wo",
  },
  residual: "sequential",
  isGated: true,
  positions: "rope",
  aliases: {
    rms_norm_eps: "norm_eps",
    hidden_act: "hidden_activation",
    sliding_window: "local_attention",
    rope_theta: "global_rope_theta",
    rope_local_base_freq: "local_rope_theta",
  },
  defaults: {
    norm_eps: 1e-5,
    hidden_activation: "gelu",
    local_attention: 128,
    global_rope_theta: 160_000,
    local_rope_theta: 10_000,
    max_position_embeddings: 8192,
  },
  biases: {
    ...NO_BIAS,
    qkv: { field: "attention_bias" },
    oProj: { field: "attention_bias" },
    mlp: { field: "mlp_bias" },
  },
  window: { kind: "all-but-every", n: 3, field: "global_attn_every_n_layers", offset: 1 },
  noEffect: [
    ...(ENCODER.noEffect ?? []),
    "decoder_bias",
    "deterministic_flash_attn",
    "sparse_*",
    "repad_*",
    "embedding_*",
  ],
  variant: (fields) => ({ hasNormBias: fields.boolean("norm_bias", false) }),
};

const NOMIC_BERT: Architecture = {
  ...ENCODER,
  className: "NomicBertModel",
  weights: {
    prefixes: ["bert.", ""],
    embedding: "embeddings.word_embeddings",
    segments: "embeddings.token_type_embeddings",
    postNorms: ["emb_ln", "norm2"],
    norm: "",
    output: "",
    layer: "encoder.layers.#.",
    qkv: ["attn.Wqkv"],
    oProj: "attn.out_proj",
    mlpNorm: "norm1",
    mlpIn: ["mlp.fc12", "mlp.fc11"],
    mlpOut: "mlp.fc2",
  },
  residual: "post-norm",
  isGated: true,
  positions: "rope",
  aliases: { rms_norm_eps: "layer_norm_eps" },
  defaults: { layer_norm_eps: 1e-12, rope_theta: 1000, type_vocab_size: 2 },
  biases: NO_BIAS,
  // Published files have the names of its own repository.
  older: {
    field: "n_embd",
    row: {
      aliases: {
        hidden_size: "n_embd",
        intermediate_size: "n_inner",
        num_hidden_layers: "n_layer",
        num_attention_heads: "n_head",
        max_position_embeddings: "n_positions",
        rms_norm_eps: "layer_norm_epsilon",
        rope_theta: "rotary_emb_base",
      },
      defaults: { rotary_emb_base: 1000, type_vocab_size: 2 },
      requires: {
        activation_function: "swiglu",
        causal: false,
        mlp_fc1_bias: false,
        mlp_fc2_bias: false,
        parallel_block: false,
        prenorm: false,
        qkv_proj_bias: false,
        rotary_emb_fraction: 1,
        rotary_emb_interleaved: false,
        use_rms_norm: false,
      },
      activation: "silu",
      noEffect: ["rotary_emb_scale_base", "rotary_scaling_factor", "scale_attn_*", "reorder_*", "pad_*", "n_inner"],
    },
  },
};

/** EmbeddingGemma attends to both sides; the window of its field counts both together. */
const GEMMA3_TEXT: Architecture = {
  ...LLAMA,
  className: "Gemma3TextModel",
  weights: weightNamesOf("Gemma3ForCausalLM"),
  aliases: { hidden_act: "hidden_activation" },
  defaults: {
    hidden_activation: "gelu_pytorch_tanh",
    head_dim: 256,
    query_pre_attn_scalar: 256,
    rope_theta: 1e6,
    rope_local_base_freq: 1e4,
    sliding_window: 4096,
    max_position_embeddings: 131_072,
  },
  norm: "rms-plus-one",
  scalesEmbedding: true,
  headNorm: HEAD_NORM,
  biases: { ...LLAMA.biases, mlp: false },
  window: { kind: "all-but-every", n: 6, field: "sliding_window_pattern" },
  variant: (fields: HfFields) => ({ isCausal: !fields.boolean("use_bidirectional_attention", false) }),
};

const BERT_HEADS = ["Model", "ForMaskedLM", "ForPreTraining", "ForSequenceClassification"];
const classes = (row: Architecture, family: string, ends: readonly string[]): readonly Architecture[] =>
  ends.map((end) => ({ ...row, className: family + end }));

export const ENCODER_FAMILIES: readonly Architecture[] = [
  ...classes(BERT, "Bert", BERT_HEADS),
  ...["Roberta", "XLMRoberta", "Camembert"].flatMap((family) => classes(ROBERTA, family, BERT_HEADS)),
  ...classes(MODERN_BERT, "ModernBert", ["Model", "ForMaskedLM", "ForSequenceClassification"]),
  ...classes(NOMIC_BERT, "NomicBert", ["Model", "ForMaskedLM"]),
  GEMMA3_TEXT,
];
