/**
 * T5, FLAN-T5, mT5 and UMT5: an encoder and a decoder with a table of distances, without scaled products. Sources: Raffel et al.
 * 2020; transformers, modeling_t5.py, modeling_mt5.py and modeling_umt5.py.
 */
import type { HfFields } from "../../../../formats/hf/config-fields.ts";
import type { WeightNames } from "../../../../formats/hf/weight-names.ts";
import type { Architecture } from "../../architecture.ts";
import { LLAMA, NO_BIAS } from "../../base-rows.ts";
import type { Activation } from "../../decoder-config.ts";

/** No field bounds the positions: a table of distances fits any. As many as TensorRT-LLM's builder takes by default. */
const MAX_POSITIONS = 1024;

const SELF = "layer.0.SelfAttention";
const CROSS = "layer.1.EncDecAttention";

const ENCODER_NAMES: WeightNames = {
  prefixes: [""],
  embedding: "shared",
  norm: "encoder.final_layer_norm",
  output: "",
  layer: "encoder.block.#.",
  attentionNorm: "layer.0.layer_norm",
  qkv: [`${SELF}.q`, `${SELF}.k`, `${SELF}.v`],
  oProj: `${SELF}.o`,
  relativeBias: { name: `${SELF}.relative_attention_bias`, layers: "first" },
  mlpNorm: "layer.1.layer_norm",
  mlpIn: ["layer.1.DenseReluDense.wi"],
  mlpOut: "layer.1.DenseReluDense.wo",
};

const DECODER_NAMES: WeightNames = {
  ...ENCODER_NAMES,
  norm: "decoder.final_layer_norm",
  output: "lm_head",
  layer: "decoder.block.#.",
  cross: {
    norm: "layer.1.layer_norm",
    query: `${CROSS}.q`,
    keyValue: [`${CROSS}.k`, `${CROSS}.v`],
    out: `${CROSS}.o`,
  },
  mlpNorm: "layer.2.layer_norm",
  mlpIn: ["layer.2.DenseReluDense.wi"],
  mlpOut: "layer.2.DenseReluDense.wo",
};

const ALIASES = {
  hidden_size: "d_model",
  intermediate_size: "d_ff",
  num_attention_heads: "num_heads",
  head_dim: "d_kv",
  rms_norm_eps: "layer_norm_epsilon",
};

const ROW: Omit<Architecture, "className" | "weights"> = {
  ...LLAMA,
  positions: "none",
  scales: { attention: 1 },
  maxPositions: MAX_POSITIONS,
  biases: NO_BIAS,
  window: { kind: "none" },
  noEffect: ["dense_act_fn", "is_gated_act", "n_positions", "task_specific_params", "output_past", "tokenizer_class"],
};

/** Feed-forward layers as the field names them. The gated form called gelu is the approximation by tanh. */
const FORMS: ReadonlyMap<unknown, { readonly isGated: boolean; readonly activation: Activation }> = new Map([
  ["relu", { isGated: false, activation: "relu" }],
  ["gelu", { isGated: false, activation: "gelu-erf" }],
  ["gelu_new", { isGated: false, activation: "gelu-tanh" }],
  ["gated-gelu", { isGated: true, activation: "gelu-tanh" }],
  ["gated-gelu_new", { isGated: true, activation: "gelu-tanh" }],
  ["gated-silu", { isGated: true, activation: "silu" }],
]);

/** `names` are those without a gate; `layers` have a table of their own. */
function variantOf(names: WeightNames, layers: "first" | "all"): (fields: HfFields) => Partial<Architecture> {
  return (fields) => {
    const given = fields.get("feed_forward_proj");
    const form = FORMS.get(given);
    if (form === undefined) throw fields.refusal("feed_forward_proj", [...FORMS.keys()].join(", "), given);
    const [wide = ""] = names.mlpIn;
    const { relativeBias = { name: "", layers } } = names;
    return {
      ...form,
      relativeBias: {
        numBuckets: fields.int("relative_attention_num_buckets", { min: 4, max: 4096 }),
        maxDistance: fields.int("relative_attention_max_distance", { min: 4, max: 1 << 20 }),
      },
      weights: {
        ...names,
        relativeBias: { ...relativeBias, layers },
        mlpIn: form.isGated ? [`${wide}_0`, `${wide}_1`] : [wide],
      },
    };
  };
}

interface Traits {
  readonly defaults: Readonly<Record<string, unknown>>;
  readonly tables: "first" | "all";
  /** Rows are scaled before the output table. */
  readonly scalesOutput: boolean;
}

function family(className: string, { defaults: own, tables, scalesOutput }: Traits): Architecture {
  const defaults = {
    d_kv: 64,
    layer_norm_epsilon: 1e-6,
    relative_attention_num_buckets: 32,
    relative_attention_max_distance: 128,
    tie_word_embeddings: true,
    ...own,
  };
  const encoder: Architecture = {
    ...ROW,
    className,
    defaults,
    aliases: { ...ALIASES, num_hidden_layers: "num_layers" },
    isCausal: false,
    noEffect: [...(ROW.noEffect ?? []), "num_decoder_layers", "scale_decoder_outputs"],
    weights: ENCODER_NAMES,
    variant: variantOf(ENCODER_NAMES, tables),
  };
  const ofDecoder = variantOf(DECODER_NAMES, tables);
  return {
    ...ROW,
    className,
    defaults,
    aliases: { ...ALIASES, num_hidden_layers: "num_decoder_layers" },
    weights: DECODER_NAMES,
    encoder,
    variant: (fields) => {
      // Older files say it by the tie, and newer ones always tie.
      const isScaled = fields.boolean("scale_decoder_outputs", fields.boolean("tie_word_embeddings", true));
      const scale = 1 / Math.sqrt(fields.int("hidden_size", { min: 1, max: 1 << 24 }));
      return {
        ...ofDecoder(fields),
        scales: { attention: 1, logits: scalesOutput && isScaled ? scale : 1 },
      };
    },
  };
}

const GATED = { feed_forward_proj: "gated-gelu", decoder_start_token_id: 0 };

export const T5S: readonly Architecture[] = [
  family("T5ForConditionalGeneration", {
    defaults: { feed_forward_proj: "relu" },
    tables: "first",
    scalesOutput: true,
  }),
  family("MT5ForConditionalGeneration", { defaults: GATED, tables: "first", scalesOutput: false }),
  family("UMT5ForConditionalGeneration", { defaults: GATED, tables: "all", scalesOutput: true }),
];
