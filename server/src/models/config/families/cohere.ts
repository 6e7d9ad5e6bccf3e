/**
 * Command-R and Command R7B: attention and MLP read the same layer norm without a bias; interleaved rotary pairs; scaled
 * logits. Cohere 2 has windows, and no positions in layers without one. Source: transformers, modeling_cohere.py and
 * modeling_cohere2.py.
 */
import { HEAD_NORMS, LLAMA_NAMES } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { LLAMA, NO_BIAS } from "../base-rows.ts";

const { mlpNorm: _, ...ONE_NORM } = LLAMA_NAMES;
const DEFAULTS = { layer_norm_eps: 1e-5, tie_word_embeddings: true };

const COHERE: Architecture = {
  ...LLAMA,
  className: "CohereForCausalLM",
  weights: { ...ONE_NORM, headNorms: HEAD_NORMS, headNormWeights: "rows" },
  aliases: { rms_norm_eps: "layer_norm_eps" },
  defaults: { ...DEFAULTS, rope_theta: 5e5 },
  norm: "layer",
  hasNormBias: false,
  residual: "parallel",
  isRopeInterleaved: true,
  biases: { ...NO_BIAS, qkv: { field: "attention_bias" }, oProj: { field: "attention_bias" } },
  variant: (fields) => ({
    scales: { logits: fields.positive("logit_scale", 0.0625) },
    headNorm: fields.boolean("use_qk_norm", false) ? { kind: "layer", scope: "head", isAfterRope: false } : undefined,
  }),
};

const COHERE2: Architecture = {
  ...COHERE,
  className: "Cohere2ForCausalLM",
  weights: ONE_NORM,
  defaults: { ...DEFAULTS, sliding_window: 4096, head_dim: 128 },
  requires: { use_gated_activation: true, use_embedding_sharing: true, use_parallel_block: true, use_qk_norm: false },
  window: { kind: "all-but-every", n: 4, field: "sliding_window_pattern" },
  withoutRope: (_layer, window) => window === undefined,
  noEffect: ["rotary_pct", "position_embedding_type", "order_of_interleaved_layers", "use_parallel_embedding"],
  variant: (fields) => ({ scales: { logits: fields.positive("logit_scale", 0.0625) } }),
};

export const COHERES: readonly Architecture[] = [COHERE, COHERE2];
