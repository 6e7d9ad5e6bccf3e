/** Honoured fields whose other value leaves the logits of a recorded model as they are, each with the reason. Pure. */
import type { FieldChange } from "./field-changes.ts";

export interface Neutral {
  readonly field: RegExp;
  /** Recorded models, none of which may be refused or give other logits; absent: any. */
  readonly models?: readonly string[];
  readonly reason: string;
}

const NEUTRAL: readonly Neutral[] = [
  { field: /^(bos|eos|pad)_token_id$/, reason: "tokens begin and end a text; logits do not depend on them" },
  {
    field: /^(max_position_embeddings|n_positions|seq_length|max_seq_len)$/,
    reason: "bounds the length of a sequence where positions have no table and no scaling",
  },
  {
    field: /^intermediate_size$/,
    models: [
      "qwen2-moe",
      "qwen3-next",
      "qwen3-vl-moe",
      "deepseek-v2-2",
      "deepseek-v3-2",
      "dots1-2",
      "afmoe-2",
      "lfm2-moe-2",
      "glm-4-moe-2",
      "solar-open",
      "solar-open-2",
    ],
    reason: "the size of dense layers; all layers of these models have experts",
  },
  {
    field: /^rope_parameters$/,
    models: ["gpt-neox", "qwen3-next", "qwen3.5", "qwen3.5-moe", "stablelm"],
    reason: "one pair of each head is rotated, and its frequency is 1 for any theta",
  },
  { field: /^rope_parameters$/, models: ["falcon-rw"], reason: "ALiBi takes the place of RoPE" },
  { field: /^rope_parameters$/, models: ["granite-4", "granite-4-mamba"], reason: "position_embedding_type is nope" },
  { field: /^layer_types$/, models: ["dots1-2"], reason: "the window is longer than the prompt" },
  { field: /^use_sliding_window$/, models: ["qwen3-moe"], reason: "sliding_window is null" },
  { field: /^swiglu_limit$/, models: ["gpt-oss-2"], reason: "no activation reaches the limit" },
  {
    field: /^original_max_position_embeddings$/,
    models: ["phi-3"],
    reason: "read for longrope, which this model has not",
  },
  { field: /^multi_query_attention$/, models: ["chatglm-2"], reason: "multi_query_group_num is read when it is true" },
  {
    field: /^sliding_window_pattern$/,
    models: ["exaone-4", "exaone-moe", "exaone-moe-2"],
    reason: "layer_types says more",
  },
  {
    field: /^first_k_dense_replace$/,
    models: ["exaone-moe", "exaone-moe-2"],
    reason: "mlp_layer_types says more",
  },
  {
    field: /^moe_layer_(end_index|interval)$/,
    models: ["ernie-4.5-moe"],
    reason: "its last layer has experts with both values",
  },
  { field: /^multi_query$/, models: ["falcon-40b"], reason: "new_decoder_architecture goes by num_kv_heads" },
  { field: /^block_multiple_of$/, models: ["lfm2"], reason: "the size is a multiple of both values" },
  { field: /^intermediate_size_mlp$/, models: ["llama-4"], reason: "the size of dense layers; all have experts" },
  { field: /^moe_layers$/, models: ["llama-4"], reason: "another order of the same layers" },
  { field: /^interleave_moe_layer_step$/, models: ["llama-4", "llama-4-2"], reason: "moe_layers says more" },
  {
    field: /^no_rope_layer_interval$/,
    models: ["llama-4", "llama-4-2", "smollm3", "smollm3-2"],
    reason: "no_rope_layers says more",
  },
  { field: /^use_double_wide_mlp$/, models: ["gemma-4-2"], reason: "it widens layers that share keys and values" },
  { field: /^attn_config$/, models: ["mpt", "mpt-2"], reason: "its first member is for training" },
];

/** The row of a change that leaves the logits as they are; undefined where it must not. */
export function neutralRow({ field, model }: FieldChange): Neutral | undefined {
  return NEUTRAL.find((row) => row.field.test(field) && (row.models === undefined || row.models.includes(model)));
}
