/**
 * Gemma 3n, its text: alternating updates of several streams, a low-rank branch beside attention, inputs of every layer, the last
 * layers without keys and values of their own, sparse gates in the first. Source: transformers, modeling_gemma3n.py.
 */

import type { HfFields } from "../../../../formats/hf/config-fields.ts";
import { HEAD_NORMS, LLAMA_NAMES, type WeightNames } from "../../../../formats/hf/weight-names.ts";
import type { Architecture } from "../../architecture.ts";
import { HEAD_NORM, LLAMA, NO_BIAS } from "../../base-rows.ts";
import { PER_LAYER_NAMES } from "./gemma4.ts";
import { normalQuantile } from "./normal-quantile.ts";
import { layerKinds, sharedSources } from "./shared-kv.ts";

const NAMES: WeightNames = {
  ...LLAMA_NAMES,
  headNorms: HEAD_NORMS,
  attentionPostNorm: "post_attention_layernorm",
  mlpNorm: "pre_feedforward_layernorm",
  mlpPostNorm: "post_feedforward_layernorm",
  perLayer: PER_LAYER_NAMES,
  altUp: {
    projection: "altup_projections.#",
    unprojection: "altup_unembed_projections.#",
    routerNorm: "altup.router_norm",
    router: "altup.modality_router",
    prediction: "altup.prediction_coefs",
    correction: "altup.correction_coefs",
    outputScale: "altup.correct_output_scale",
    laurel: ["laurel.linear_left", "laurel.linear_right", "laurel.post_laurel_norm"],
  },
};
const SIZE = { min: 1, max: 1 << 24 } as const;
/** Every nth layer sees everything, where no list says it. */
const PERIOD = 5;

const GEMMA3N: Architecture = {
  ...LLAMA,
  className: "Gemma3nForCausalLM",
  weights: NAMES,
  section: "text_config",
  isSectionOptional: true,
  aliases: { hidden_act: "hidden_activation" },
  defaults: {
    tie_word_embeddings: true,
    head_dim: 256,
    num_key_value_heads: 2,
    sliding_window: 512,
    final_logit_softcapping: 30,
    vocab_size: 262_400,
    vocab_size_per_layer_input: 262_144,
    hidden_size_per_layer_input: 256,
    num_kv_shared_layers: 15,
    rope_theta: 1e6,
    rope_local_base_freq: 1e4,
  },
  requires: { altup_active_idx: 0 },
  activation: "gelu-tanh",
  scalesEmbedding: true,
  scales: { attention: 1 },
  headNorm: HEAD_NORM,
  hasValueNorm: true,
  biases: { ...NO_BIAS, qkv: { field: "attention_bias" }, oProj: { field: "attention_bias" } },
  window: { kind: "all-but-every", n: PERIOD },
  noEffect: ["altup_coef_clip", "altup_lr_multiplier"],
  variant: gemma3nVariant,
};

export const GEMMA3NS: readonly Architecture[] = [
  GEMMA3N,
  {
    ...GEMMA3N,
    className: "Gemma3nForConditionalGeneration",
    weights: { ...NAMES, prefixes: ["model.language_model.", "language_model.model.", "model."] },
  },
];

function gemma3nVariant(fields: HfFields): Partial<Architecture> {
  const kinds = layerKinds(fields, PERIOD);
  const sources = sharedSources(fields, kinds);
  const widths = perLayer(fields, "intermediate_size", kinds.length, 16_384);
  const sparsity = perLayer(fields, "activation_sparsity_pattern", kinds.length, undefined);
  const widest = Math.max(...widths);
  const width = fields.int("hidden_size_per_layer_input", SIZE);
  return {
    intermediateSize: widest,
    layerDetails: (layer) => ({
      ...(sources[layer] === undefined ? {} : { kvSource: sources[layer] }),
      ...(widths[layer] === widest ? {} : { mlpWidth: widths[layer] }),
      ...((sparsity[layer] ?? 0) > 0 ? { gateCutoff: normalQuantile(sparsity[layer] ?? 0) } : {}),
    }),
    altUp: {
      numStreams: fields.int("altup_num_inputs", { min: 2, max: 64, default: 4 }),
      hasOutputScale: fields.boolean("altup_correct_scale", true),
      laurelRank: fields.int("laurel_rank", { ...SIZE, default: 64 }),
    },
    perLayerInputs: {
      width,
      vocabSize: fields.int("vocab_size_per_layer_input", SIZE),
      tableScale: Math.sqrt(width),
    },
  };
}

/** A number for each layer, or one for all. Sparse gates are those of the first ten of more than ten layers by default. */
function perLayer(fields: HfFields, name: string, count: number, byDefault: number | undefined): readonly number[] {
  const value = fields.get(name);
  const isNumber = (one: unknown): one is number => typeof one === "number" && Number.isFinite(one) && one >= 0;
  if (value === undefined && byDefault === undefined)
    return Array.from({ length: count }, (_, layer) => (count > 10 && layer < 10 ? 0.95 : 0));
  const listed: readonly unknown[] = Array.isArray(value)
    ? value
    : Array.from({ length: count }, () => value ?? byDefault);
  if (listed.length === count && listed.every(isNumber)) return listed;
  throw fields.refusal(name, `a number, or ${count} of them`, value);
}
