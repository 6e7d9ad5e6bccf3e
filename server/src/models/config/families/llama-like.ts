/**
 * Llama with other names, biases or positions: Seed-OSS, ERNIE 4.5, Helium, CWM, InternLM 2 and 3, Baichuan. Source:
 * transformers, modeling_seed_oss.py, modeling_ernie4_5.py, modeling_helium.py, modeling_cwm.py and modeling_internlm3.py;
 * modeling_internlm2.py of internlm/internlm2_5-7b and modeling_baichuan.py of baichuan-inc/Baichuan2-13B-Chat.
 */
import type { HfFields } from "../../../formats/hf/config-fields.ts";
import { LLAMA_NAMES, type WeightNames } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { LLAMA, NO_BIAS } from "../base-rows.ts";

const SEED_OSS: Architecture = {
  ...LLAMA,
  className: "SeedOssForCausalLM",
  weights: LLAMA_NAMES,
  defaults: { attention_bias: true, head_dim: 128 },
  biases: {
    ...NO_BIAS,
    qkv: { field: "attention_bias" },
    oProj: { field: "attention_out_bias" },
    mlp: { field: "mlp_bias" },
  },
};

const ERNIE: Architecture = {
  ...LLAMA,
  className: "Ernie4_5ForCausalLM",
  weights: LLAMA_NAMES,
  defaults: { head_dim: 128, tie_word_embeddings: true, rms_norm_eps: 1e-5, rope_theta: 5e5 },
  isRopeInterleaved: true,
  biases: { qkv: { field: "use_bias" }, oProj: { field: "use_bias" }, mlp: { field: "use_bias" }, output: false },
};

const HELIUM: Architecture = {
  ...LLAMA,
  className: "HeliumForCausalLM",
  weights: LLAMA_NAMES,
  defaults: { head_dim: 128, rms_norm_eps: 1e-8, rope_theta: 1e5 },
  isRopeInterleaved: true,
  biases: { ...NO_BIAS, qkv: { field: "attention_bias" }, mlp: { field: "mlp_bias" } },
};

const CWM: Architecture = {
  ...LLAMA,
  className: "CwmForCausalLM",
  weights: LLAMA_NAMES,
  defaults: { head_dim: 128, rms_norm_eps: 1e-5, rope_theta: 1e6 },
  biases: NO_BIAS,
};

const INTERNLM3: Architecture = {
  ...LLAMA,
  className: "InternLM3ForCausalLM",
  weights: LLAMA_NAMES,
  biases: { qkv: { field: "qkv_bias" }, oProj: { field: "bias" }, mlp: { field: "bias" }, output: false },
};

const INTERNLM2_NAMES: WeightNames = {
  prefixes: ["model.", ""],
  embedding: "tok_embeddings",
  norm: "norm",
  output: "output",
  layer: "layers.#.",
  attentionNorm: "attention_norm",
  qkv: ["attention.wqkv"],
  hasGroupedQkv: true,
  oProj: "attention.wo",
  mlpNorm: "ffn_norm",
  mlpIn: ["feed_forward.w1", "feed_forward.w3"],
  mlpOut: "feed_forward.w2",
};

const INTERNLM2: Architecture = {
  ...LLAMA,
  className: "InternLM2ForCausalLM",
  weights: INTERNLM2_NAMES,
  biases: { ...NO_BIAS, qkv: { field: "bias" }, oProj: { field: "bias" } },
};

/** The vocabulary of Baichuan 2, which normalizes the rows of its output. */
const BAICHUAN2_VOCABULARY = 125_696;

const BAICHUAN: Architecture = {
  ...LLAMA,
  className: "BaichuanForCausalLM",
  weights: { ...LLAMA_NAMES, qkv: ["self_attn.W_pack"] },
  biases: NO_BIAS,
  noEffect: ["model_max_length", "z_loss_weight", "gradient_checkpointing"],
  variant: baichuanVariant,
};

export const LLAMA_LIKE: readonly Architecture[] = [SEED_OSS, ERNIE, HELIUM, CWM, INTERNLM3, INTERNLM2, BAICHUAN];

/** Only the smaller models have rotary positions, and only they name `max_position_embeddings`. */
function baichuanVariant(fields: HfFields): Partial<Architecture> {
  const isNormed = fields.get("vocab_size") === BAICHUAN2_VOCABULARY;
  const names = { ...BAICHUAN.weights, ...(isNormed ? { hasUnitOutputRows: true } : {}) };
  if (fields.get("max_position_embeddings") !== undefined) return { weights: names };
  return { weights: names, positions: "alibi", maxPositionsField: "model_max_length" };
}
