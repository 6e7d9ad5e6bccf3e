/**
 * LFM2: short convolutions between gates, and attention in some layers; dense or with experts. Source: transformers,
 * modeling_lfm2.py and modeling_lfm2_moe.py.
 */
import type { HfFields } from "../../../../formats/hf/config-fields.ts";
import { LLAMA_NAMES } from "../../../../formats/hf/weight-names.ts";
import type { Architecture } from "../../architecture.ts";
import { HEAD_NORM, LLAMA, NO_BIAS } from "../../base-rows.ts";
import { listedRecurrent } from "./recurrent-layers.ts";

const SIZE = { min: 1, max: 1 << 24 } as const;

const DENSE: Architecture = {
  ...LLAMA,
  className: "Lfm2ForCausalLM",
  weights: {
    ...LLAMA_NAMES,
    norm: "embedding_norm",
    attentionNorm: "operator_norm",
    mlpNorm: "ffn_norm",
    oProj: "self_attn.out_proj",
    headNorms: ["self_attn.q_layernorm", "self_attn.k_layernorm"],
    mlpIn: ["feed_forward.w1", "feed_forward.w3"],
    mlpOut: "feed_forward.w2",
    recurrent: { in: ["conv.in_proj"], out: "conv.out_proj", conv: "conv.conv" },
  },
  aliases: { rms_norm_eps: "norm_eps" },
  defaults: { tie_word_embeddings: true, norm_eps: 1e-5, rope_theta: 1e6, conv_bias: false, conv_L_cache: 3 },
  biases: NO_BIAS,
  headNorm: HEAD_NORM,
  window: { kind: "none" },
  noEffect: ["block_*", "full_attn_idxs", "tie_embedding", "conv_*", "num_heads", "use_pos_enc"],
  variant: (fields) => ({ ...convVariant(fields), intermediateSize: mlpWidth(fields) }),
};

const SPARSE: Architecture = {
  ...DENSE,
  className: "Lfm2MoeForCausalLM",
  weights: {
    ...DENSE.weights,
    experts: {
      router: "feed_forward.gate",
      correction: "feed_forward.expert_bias",
      mlpIn: ["feed_forward.experts.#.w1", "feed_forward.experts.#.w3"],
      mlpOut: "feed_forward.experts.#.w2",
    },
  },
  defaults: { ...DENSE.defaults, norm_topk_prob: true, num_experts_per_tok: 4, use_expert_bias: true },
  variant: (fields) => ({
    ...convVariant(fields),
    numDenseLayers: fields.int("num_dense_layers", { min: 0, max: 4096, default: 2 }),
    routing: {
      scores: "sigmoid",
      hasCorrection: fields.boolean("use_expert_bias", true),
      scale: fields.positive("routed_scaling_factor", 1),
    },
  }),
};

export const LFM2: readonly Architecture[] = [DENSE, SPARSE];

function convVariant(fields: HfFields): Partial<Architecture> {
  const hasBias = fields.boolean("conv_bias", false);
  return {
    hasRecurrentBias: hasBias,
    recurrent: {
      kind: "short-conv",
      convWidth: fields.int("conv_L_cache", { min: 2, max: 64 }),
      hasConvBias: hasBias,
    },
    isRecurrent: listedRecurrent(fields, "layer_types", ["conv"]) ?? byIndex(fields),
  };
}

/** Older files name the layers that attend; without either all do. */
function byIndex(fields: HfFields): (layer: number) => boolean {
  const indices = fields.get("full_attn_idxs");
  if (indices === undefined) return () => false;
  if (Array.isArray(indices)) return (layer) => !indices.includes(layer);
  throw fields.refusal("full_attn_idxs", "numbers of layers", indices);
}

/** The field says the width before two thirds of it are taken and rounded up. */
function mlpWidth(fields: HfFields): number {
  const given = fields.int(fields.get("block_ff_dim") === undefined ? "intermediate_size" : "block_ff_dim", SIZE);
  if (!fields.boolean("block_auto_adjust_ff_dim", true)) return given;
  const step = fields.int("block_multiple_of", { ...SIZE, default: 256 });
  const scaled = Math.trunc(fields.positive("block_ffn_dim_multiplier", 1) * Math.trunc((2 * given) / 3));
  return step * Math.ceil(scaled / step);
}
