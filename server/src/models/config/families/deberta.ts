/**
 * DeBERTa-v3 (the classes of DeBERTa-v2): encoders whose attention keeps contents and positions apart. Sources: He et al. 2021, DeBERTa
 * and DeBERTaV3; transformers, modeling_deberta_v2.py.
 */
import type { HfFields } from "../../../formats/hf/config-fields.ts";
import type { WeightNames } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { LLAMA } from "../base-rows.ts";

const NAMES: WeightNames = {
  prefixes: ["deberta.", ""],
  embedding: "embeddings.word_embeddings",
  postNorms: ["embeddings.LayerNorm", "output.LayerNorm"],
  relativeTable: { name: "encoder.rel_embeddings", norm: "encoder.LayerNorm" },
  norm: "",
  output: "",
  layer: "encoder.layer.#.",
  qkv: ["attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"],
  oProj: "attention.output.dense",
  mlpNorm: "attention.output.LayerNorm",
  mlpIn: ["intermediate.dense"],
  mlpOut: "output.dense",
};

/** Both terms, in any order, as a text or a list. */
const POSITION_TERMS = ["c2p", "p2c"];
const MAX_SIZE = 1 << 20;

function variant(fields: HfFields): Partial<Architecture> {
  const given = fields.get("pos_att_type");
  const terms = (Array.isArray(given) ? given.map(String) : String(given).split("|")).map((one) => one.trim()).sort();
  if (terms.join() !== POSITION_TERMS.join()) throw fields.refusal("pos_att_type", '"p2c|c2p"', given);
  const hiddenSize = fields.int("hidden_size", { min: 1, max: MAX_SIZE * 16 });
  const embeddingSize = fields.int("embedding_size", { min: 1, max: MAX_SIZE * 16, default: hiddenSize });
  if (embeddingSize !== hiddenSize)
    throw fields.refusal("embedding_size", `${hiddenSize}, the hidden_size`, embeddingSize);
  const hasSegments = fields.int("type_vocab_size", { min: 0, max: 1024 }) > 0;
  const hasPositions = fields.boolean("position_biased_input", true);
  const headDim = hiddenSize / fields.int("num_attention_heads", { min: 1, max: MAX_SIZE });
  const longest = fields.int("max_relative_positions", { min: -1, max: MAX_SIZE });
  const maxDistance = longest < 1 ? fields.int("max_position_embeddings", { min: 1, max: MAX_SIZE }) : longest;
  const buckets = fields.int("position_buckets", { min: -1, max: MAX_SIZE });
  const hasNorm = String(fields.get("norm_rel_ebd")).split("|").includes("layer_norm");
  const { relativeTable = { name: "" } } = NAMES;
  return {
    positions: hasPositions ? "learned" : "none",
    scales: { attention: 1 / Math.sqrt((1 + POSITION_TERMS.length) * headDim) },
    positionBuckets: buckets > 0 ? { span: buckets, maxDistance } : { span: maxDistance, maxDistance: undefined },
    weights: {
      ...NAMES,
      ...(hasSegments ? { segments: "embeddings.token_type_embeddings" } : {}),
      ...(hasPositions ? { positions: "embeddings.position_embeddings" } : {}),
      relativeTable: hasNorm ? relativeTable : { name: relativeTable.name },
    },
  };
}

const ROW: Omit<Architecture, "className"> = {
  ...LLAMA,
  weights: NAMES,
  norm: "layer",
  residual: "post-norm",
  isGated: false,
  isCausal: false,
  positions: "none",
  aliases: { rms_norm_eps: "layer_norm_eps" },
  defaults: {
    hidden_act: "gelu",
    layer_norm_eps: 1e-7,
    max_position_embeddings: 512,
    max_relative_positions: -1,
    position_buckets: -1,
    norm_rel_ebd: "none",
    type_vocab_size: 0,
    relative_attention: false,
    share_att_key: false,
    pos_att_type: "",
    conv_kernel_size: 0,
  },
  // Without the table of distances, with projections of their own for positions, or with a convolution they are other models.
  requires: { relative_attention: true, share_att_key: true, conv_kernel_size: 0 },
  biases: { qkv: true, oProj: true, mlp: true, output: false },
  window: { kind: "none" },
  noEffect: ["classifier_*", "pooler_*", "num_labels", "problem_type", "legacy", "mask_predictions", "lm_predictions"],
  variant,
};

export const DEBERTAS: readonly Architecture[] = ["Model", "ForMaskedLM", "ForSequenceClassification"].map((end) => ({
  ...ROW,
  className: `DebertaV2${end}`,
}));
