/**
 * Gemma 4, its text: larger heads in layers without a window, norms of values, inputs of every layer from a table, the last
 * layers without keys and values of their own, experts beside the MLP. Source: transformers, modeling_gemma4.py.
 */
import type { HfFields } from "../../../../formats/hf/config-fields.ts";
import { HEAD_NORMS, LLAMA_NAMES, type PerLayerNames, type WeightNames } from "../../../../formats/hf/weight-names.ts";
import type { Architecture } from "../../architecture.ts";
import { HEAD_NORM, LLAMA, NO_BIAS } from "../../base-rows.ts";
import type { LayerHeads } from "../../decoder-config.ts";
import { type LayerKinds, layerKinds, sharedSources } from "./shared-kv.ts";

export const PER_LAYER_NAMES: PerLayerNames = {
  table: "embed_tokens_per_layer",
  projection: "per_layer_model_projection",
  norm: "per_layer_projection_norm",
  gate: "per_layer_input_gate",
  out: "per_layer_projection",
  outNorm: "post_per_layer_input_norm",
};
const NAMES: WeightNames = {
  ...LLAMA_NAMES,
  headNorms: HEAD_NORMS,
  attentionPostNorm: "post_attention_layernorm",
  mlpNorm: "pre_feedforward_layernorm",
  mlpPostNorm: "post_feedforward_layernorm",
  layerScale: "layer_scalar",
  perLayer: PER_LAYER_NAMES,
};
const EXPERTS = {
  router: "router.proj",
  mlpIn: ["experts.gate_up_proj"],
  mlpOut: "experts.down_proj",
  hasBareTensors: true,
  beside: {
    routerNorm: "router.scale",
    norm: "pre_feedforward_layernorm_2",
    denseNorm: "post_feedforward_layernorm_1",
    outNorm: "post_feedforward_layernorm_2",
    outScale: "router.per_expert_scale",
  },
} as const;
const SIZE = { min: 1, max: 1 << 24 } as const;
/** Every nth layer sees everything, where no list says it. */
const PERIOD = 6;

const GEMMA4: Architecture = {
  ...LLAMA,
  className: "Gemma4ForCausalLM",
  weights: NAMES,
  section: "text_config",
  isSectionOptional: true,
  aliases: { hidden_act: "hidden_activation", num_experts_per_tok: "top_k_experts" },
  defaults: {
    tie_word_embeddings: true,
    head_dim: 256,
    num_key_value_heads: 4,
    sliding_window: 512,
    max_position_embeddings: 131_072,
    vocab_size: 262_144,
    vocab_size_per_layer_input: 262_144,
    hidden_size_per_layer_input: 256,
    norm_topk_prob: true,
    rope_parameters: {
      full_attention: { rope_type: "proportional", partial_rotary_factor: 0.25, rope_theta: 1e6 },
      sliding_attention: { rope_type: "default", rope_theta: 1e4 },
    },
  },
  activation: "gelu-tanh",
  scalesEmbedding: true,
  scales: { attention: 1 },
  headNorm: HEAD_NORM,
  hasValueNorm: true,
  hasLayerScale: true,
  biases: { ...NO_BIAS, qkv: { field: "attention_bias" }, oProj: { field: "attention_bias" } },
  window: { kind: "all-but-every", n: PERIOD },
  variant: gemma4Variant,
};

export const GEMMA4S: readonly Architecture[] = [
  GEMMA4,
  {
    ...GEMMA4,
    className: "Gemma4ForConditionalGeneration",
    weights: { ...NAMES, prefixes: ["model.language_model.", "language_model.model.", "model."] },
  },
];

function gemma4Variant(fields: HfFields): Partial<Architecture> {
  // Images alone see both sides in "vision".
  const sides = fields.get("use_bidirectional_attention") ?? "vision";
  if (sides !== "vision") throw fields.refusal("use_bidirectional_attention", 'null or "vision"', sides);
  const kinds = layerKinds(fields, PERIOD);
  const heads = fullHeads(fields, kinds);
  const sources = sharedSources(fields, kinds);
  const isWide = fields.boolean("use_double_wide_mlp", false);
  const mlpWidth = isWide ? 2 * fields.int("intermediate_size", SIZE) : undefined;
  const width = fields.int("hidden_size_per_layer_input", { ...SIZE, min: 0 });
  const hasExperts = fields.boolean("enable_moe_block", false);
  const { perLayer: _, ...plain } = NAMES;
  return {
    weights: {
      ...(width === 0 ? plain : NAMES),
      ...(hasExperts ? { experts: EXPERTS } : {}),
      ...(fields.boolean("attention_k_eq_v", false) ? { isValueKey: true } : {}),
    },
    fullHeadDim: heads.headDim,
    layerDetails: (layer) => ({
      ...(kinds[layer] === "full_attention" ? { heads } : {}),
      ...(sources[layer] === undefined ? {} : { kvSource: sources[layer], ...(isWide ? { mlpWidth } : {}) }),
    }),
    hasExpertsBeside: hasExperts,
    isExpertLayer: () => false,
    perLayerInputs:
      width === 0
        ? undefined
        : { width, vocabSize: fields.int("vocab_size_per_layer_input", SIZE), tableScale: Math.sqrt(width) },
  };
}

/** Heads of the layers without a window: fields of their own, or what newer files list for each of these layers. */
function fullHeads(fields: HfFields, kinds: LayerKinds): LayerHeads {
  const listed = fields.section("per_layer_config")?.section(String(kinds.indexOf("full_attention")));
  const isKeyValue = fields.boolean("attention_k_eq_v", false);
  const common = fields.int("num_key_value_heads", SIZE);
  const given = isKeyValue ? fields.int("num_global_key_value_heads", { ...SIZE, default: common }) : common;
  const byDefault = fields.get("per_layer_config") === undefined ? 512 : fields.int("head_dim", SIZE);
  return {
    headDim:
      listed?.int("head_dim", { ...SIZE, default: byDefault }) ??
      fields.int("global_head_dim", { ...SIZE, default: byDefault }),
    numKvHeads: listed?.int("num_key_value_heads", { ...SIZE, default: common }) ?? given,
  };
}
