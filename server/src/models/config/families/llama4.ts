/**
 * Llama 4, its text: attention in chunks with rotation, every nth layer whole and without; experts whose inputs are scaled.
 * Source: transformers, modeling_llama4.py.
 */
import type { HfFields } from "../../../formats/hf/config-fields.ts";
import { LLAMA_NAMES, type WeightNames } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { LLAMA, NO_BIAS } from "../base-rows.ts";

const NAMES: WeightNames = {
  ...LLAMA_NAMES,
  mlpIn: ["feed_forward.gate_proj", "feed_forward.up_proj"],
  mlpOut: "feed_forward.down_proj",
  experts: {
    router: "feed_forward.router",
    mlpIn: ["feed_forward.experts.gate_up_proj"],
    mlpOut: "feed_forward.experts.down_proj",
    hasBareTensors: true,
    isTransposed: true,
    sharedIn: ["feed_forward.shared_expert.gate_proj", "feed_forward.shared_expert.up_proj"],
    sharedOut: "feed_forward.shared_expert.down_proj",
  },
};
const MAX_LAYERS = 4096;
const SIZE = { min: 1, max: 1 << 24 } as const;

const LLAMA4: Architecture = {
  ...LLAMA,
  className: "Llama4ForCausalLM",
  weights: NAMES,
  aliases: { moe_intermediate_size: "intermediate_size", sliding_window: "attention_chunk_size" },
  defaults: { head_dim: 128, num_experts_per_tok: 1, rms_norm_eps: 1e-5, rope_theta: 5e5, attention_chunk_size: 8192 },
  intermediateField: "intermediate_size_mlp",
  biases: { ...NO_BIAS, qkv: { field: "attention_bias" }, oProj: { field: "attention_bias" } },
  isRopeInterleaved: true,
  hasChunks: true,
  routing: { scores: "sigmoid", hasCorrection: false, scale: 1, scalesInputs: true },
  noEffect: ["attn_scale", "floor_scale", "layer_types", "for_llm_compressor", "router_jitter_noise"],
  variant: llama4Variant,
};

export const LLAMA4S: readonly Architecture[] = [
  LLAMA4,
  {
    ...LLAMA4,
    className: "Llama4ForConditionalGeneration",
    section: "text_config",
    weights: {
      ...NAMES,
      prefixes: ["language_model.model.", "model.language_model."],
      output: "language_model.lm_head",
    },
  },
];

function llama4Variant(fields: HfFields): Partial<Architecture> {
  const count = fields.int("num_hidden_layers", { min: 1, max: MAX_LAYERS });
  const every = fields.int("no_rope_layer_interval", { min: 1, max: MAX_LAYERS, default: 4 });
  const listed = fields.get("no_rope_layers");
  const isListed = Array.isArray(listed) && listed.length > 0;
  if (isListed && listed.length !== count) throw fields.refusal("no_rope_layers", `${count} numbers`, listed);
  const rotates = (layer: number): boolean => (isListed ? listed[layer] === 1 : (layer + 1) % every !== 0);
  const sparse = fields.get("moe_layers");
  const step = fields.int("interleave_moe_layer_step", { min: 1, max: MAX_LAYERS, default: 1 });
  const isSparse = (layer: number): boolean =>
    Array.isArray(sparse) ? sparse.includes(layer) : (layer + 1) % step === 0;
  const isTuned = fields.boolean("attn_temperature_tuning", true);
  return {
    withoutRope: (layer) => !rotates(layer),
    window: { kind: "layers", has: rotates },
    isExpertLayer: isSparse,
    sharedExpertsSize: fields.int("intermediate_size", SIZE),
    headNorm: fields.boolean("use_qk_norm", true)
      ? { kind: "rms", scope: "head", isAfterRope: true, isBare: true }
      : undefined,
    temperature: isTuned
      ? {
          beta: fields.positive("attn_scale", 0.1),
          positions: fields.int("floor_scale", { ...SIZE, default: 8192 }),
          firstPosition: 1,
          isOnlyWithoutRope: true,
        }
      : undefined,
  };
}
