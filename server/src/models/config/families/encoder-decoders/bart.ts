/**
 * BART, mBART and M2M100 (NLLB too): an encoder and a decoder of like layers, with norms behind or in front of their parts. Sources:
 * Lewis et al. 2020, Liu et al. 2020, Fan et al. 2021; transformers, modeling_bart.py, modeling_mbart.py, modeling_m2m_100.py.
 */
import type { CrossNames, WeightNames } from "../../../../formats/hf/weight-names.ts";
import type { Architecture } from "../../architecture.ts";
import { LLAMA } from "../../base-rows.ts";

/** The parts of a layer that all of these have under the same names. */
export const LAYER_NAMES: Pick<WeightNames, "qkv" | "oProj" | "mlpIn" | "mlpOut"> = {
  qkv: ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
  oProj: "self_attn.out_proj",
  mlpIn: ["fc1"],
  mlpOut: "fc2",
};

export const CROSS_MODULES: Omit<CrossNames, "norm"> = {
  query: "encoder_attn.q_proj",
  keyValue: ["encoder_attn.k_proj", "encoder_attn.v_proj"],
  out: "encoder_attn.out_proj",
};

type Side = "encoder" | "decoder";

/** Norms behind each part, which replace the rows: those of the embeddings and of layers' ends stand in front of layers. */
function bartNames(side: Side): WeightNames {
  const isDecoder = side === "decoder";
  return {
    ...LAYER_NAMES,
    prefixes: ["model.", ""],
    embedding: "shared",
    positions: `${side}.embed_positions`,
    positionsOffset: 2,
    postNorms: [`${side}.layernorm_embedding`, "final_layer_norm"],
    norm: "",
    output: "lm_head",
    layer: `${side}.layers.#.`,
    mlpNorm: isDecoder ? "encoder_attn_layer_norm" : "self_attn_layer_norm",
    ...(isDecoder ? { cross: { ...CROSS_MODULES, norm: "self_attn_layer_norm" } } : {}),
  };
}

/** Norms in front of each part, and one at the end. */
export function preNormNames(side: Side, rest: Partial<WeightNames>): WeightNames {
  const isDecoder = side === "decoder";
  return {
    ...LAYER_NAMES,
    prefixes: ["model.", ""],
    embedding: "shared",
    norm: `${side}.layer_norm`,
    output: "lm_head",
    layer: `${side}.layers.#.`,
    attentionNorm: "self_attn_layer_norm",
    mlpNorm: "final_layer_norm",
    ...(isDecoder ? { cross: { ...CROSS_MODULES, norm: "encoder_attn_layer_norm" } } : {}),
    ...rest,
  };
}

const mbartNames = (side: Side): WeightNames =>
  preNormNames(side, {
    positions: `${side}.embed_positions`,
    positionsOffset: 2,
    embeddingNorm: `${side}.layernorm_embedding`,
  });

/** Fields of a layer by the side that it is on. */
export function sideAliases(side: Side): Readonly<Record<string, string>> {
  return {
    hidden_size: "d_model",
    num_hidden_layers: `${side}_layers`,
    num_attention_heads: `${side}_attention_heads`,
    intermediate_size: `${side}_ffn_dim`,
    hidden_act: "activation_function",
  };
}

export const SIDED: Omit<Architecture, "className" | "weights"> = {
  ...LLAMA,
  norm: "layer",
  residual: "sequential",
  isGated: false,
  positions: "learned",
  defaults: { rms_norm_eps: 1e-5, activation_function: "gelu", tie_word_embeddings: true },
  biases: { qkv: true, oProj: true, mlp: true, output: { field: "has_final_logits_bias" } },
  window: { kind: "none" },
  variant: (fields) => {
    const isScaled = fields.boolean("scale_embedding", false);
    return { scales: { embedding: isScaled ? Math.sqrt(fields.int("hidden_size", { min: 1, max: 1 << 24 })) : 1 } };
  },
};

const COMMON_NO_EFFECT = [
  "classif_*",
  "classifier_*",
  "forced_*",
  "normalize_embedding",
  "num_hidden_layers",
  "num_beams",
  "no_repeat_ngram_size",
  "task_specific_params",
  "prefix",
  "extra_pos_embeddings",
  "add_bias_logits",
];

function family(className: string, row: Partial<Architecture>, names: (side: Side) => WeightNames): Architecture {
  const side = (name: Side): Architecture => ({
    ...SIDED,
    className,
    ...row,
    defaults: { ...SIDED.defaults, ...row.defaults },
    aliases: sideAliases(name),
    // The other side reads its own.
    noEffect: [...COMMON_NO_EFFECT, name === "encoder" ? "decoder_*" : "encoder_*"],
    weights: names(name),
  });
  const encoder = { ...side("encoder"), isCausal: false };
  return { ...side("decoder"), encoder };
}

/** Older files say how a variant of their code differs. */
const BART_REQUIRES = { normalize_before: false, add_final_layer_norm: false, static_position_embeddings: false };
const MBART_REQUIRES = { normalize_before: true, add_final_layer_norm: true, static_position_embeddings: false };

export const BARTS: readonly Architecture[] = [
  family(
    "BartForConditionalGeneration",
    { residual: "post-norm", requires: BART_REQUIRES, defaults: { decoder_start_token_id: 2 } },
    bartNames,
  ),
  family(
    "MBartForConditionalGeneration",
    { requires: MBART_REQUIRES, defaults: { decoder_start_token_id: 2 } },
    mbartNames,
  ),
  family(
    "M2M100ForConditionalGeneration",
    {
      positions: "sinusoidal",
      firstSinusoid: 2,
      requires: { pad_token_id: 1 },
      defaults: { activation_function: "relu", scale_embedding: true, decoder_start_token_id: 2, pad_token_id: 1 },
    },
    (side) => preNormNames(side, {}),
  ),
];
