/**
 * GPT-2 with other attention: GPT-Neo, whose every other layer sees a window, and StarCoder 1, whose heads share one key and one
 * value. Source: transformers, modeling_gpt_neo.py and modeling_gpt_bigcode.py.
 */
import type { HfFields } from "../../../formats/hf/config-fields.ts";
import type { WeightNames } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { LLAMA, NO_BIAS } from "../base-rows.ts";

const NAMES: WeightNames = {
  prefixes: ["transformer.", ""],
  embedding: "wte",
  positions: "wpe",
  norm: "ln_f",
  output: "lm_head",
  layer: "h.#.",
  attentionNorm: "ln_1",
  qkv: ["attn.c_attn"],
  oProj: "attn.c_proj",
  mlpNorm: "ln_2",
  mlpIn: ["mlp.c_fc"],
  mlpOut: "mlp.c_proj",
};

const BIGCODE: Architecture = {
  ...LLAMA,
  className: "GPTBigCodeForCausalLM",
  weights: NAMES,
  aliases: {
    hidden_size: "n_embd",
    intermediate_size: "n_inner",
    num_hidden_layers: "n_layer",
    num_attention_heads: "n_head",
    max_position_embeddings: "n_positions",
    hidden_act: "activation_function",
    rms_norm_eps: "layer_norm_epsilon",
  },
  defaults: {
    activation_function: "gelu_pytorch_tanh",
    layer_norm_epsilon: 1e-5,
    tie_word_embeddings: true,
    multi_query: true,
  },
  requires: { scale_attn_weights: true, add_cross_attention: false },
  norm: "layer",
  isGated: false,
  intermediateRatio: 4,
  positions: "learned",
  window: { kind: "none" },
  biases: { qkv: true, oProj: true, mlp: true, output: false },
  noEffect: [
    "attention_softmax_in_fp32",
    "scale_attention_softmax_in_fp32",
    "inference_runner",
    "pad_key_length",
    "pre_allocate_kv_cache",
    "validate_runner_input",
    "max_batch_size",
    "max_sequence_length",
  ],
  // With a key of its own each head has its query, key and value side by side.
  variant: (fields) =>
    fields.boolean("multi_query", true)
      ? { numKvHeads: 1 }
      : {
          weights: { ...NAMES, hasGroupedQkv: true },
          numKvHeads: fields.int("num_attention_heads", { min: 1, max: 4096 }),
        },
};

const NEO: Architecture = {
  ...BIGCODE,
  className: "GPTNeoForCausalLM",
  weights: {
    ...NAMES,
    qkv: ["attn.attention.q_proj", "attn.attention.k_proj", "attn.attention.v_proj"],
    oProj: "attn.attention.out_proj",
  },
  aliases: {
    num_hidden_layers: "num_layers",
    num_attention_heads: "num_heads",
    sliding_window: "window_size",
    hidden_act: "activation_function",
    rms_norm_eps: "layer_norm_epsilon",
  },
  defaults: { activation_function: "gelu_new", layer_norm_epsilon: 1e-5, tie_word_embeddings: true, window_size: 256 },
  requires: {},
  scales: { attention: 1 },
  biases: { ...NO_BIAS, oProj: true, mlp: true },
  noEffect: ["attention_types", "attention_layers"],
  variant: (fields) => ({ window: { kind: "layers", has: localLayers(fields) } }),
};

export const GPT2_LIKE: readonly Architecture[] = [BIGCODE, NEO];

/** The kinds of all layers: a list of them, or kinds in turn and how often. */
function localLayers(fields: HfFields): (layer: number) => boolean {
  const count = fields.int("num_hidden_layers", { min: 1, max: 4096 });
  const listed = fields.get("attention_layers") ?? expanded(fields, count);
  const isKnown = (kind: unknown): boolean => kind === "global" || kind === "local";
  if (Array.isArray(listed) && listed.length === count && listed.every(isKnown))
    return (layer) => listed[layer] === "local";
  throw fields.refusal("attention_types", `kinds "global" and "local" of ${count} layers`, listed);
}

function expanded(fields: HfFields, count: number): unknown {
  const types = fields.get("attention_types");
  if (!Array.isArray(types)) return types;
  return types.flatMap((entry: unknown) => {
    const [kinds, times]: readonly unknown[] = Array.isArray(entry) ? entry : [];
    return Array.isArray(kinds) && typeof times === "number" && times <= count
      ? Array.from({ length: times }, () => kinds as readonly unknown[]).flat()
      : [undefined];
  });
}
