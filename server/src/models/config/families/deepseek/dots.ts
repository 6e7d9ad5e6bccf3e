/**
 * dots.llm1 and Solar Open: experts as DeepSeek-V3 routes them over Qwen 3's or Llama's attention. Source: transformers,
 * modeling_dots1.py and modeling_solar_open.py.
 */
import { HEAD_NORMS, LLAMA_NAMES } from "../../../../formats/hf/weight-names.ts";
import type { Architecture } from "../../architecture.ts";
import { HEAD_NORM, LLAMA, NO_BIAS } from "../../base-rows.ts";
import { DEEPSEEK_EXPERTS, deepseekRouting } from "./deepseek-routing.ts";

const DOTS1: Architecture = {
  ...LLAMA,
  className: "Dots1ForCausalLM",
  weights: { ...LLAMA_NAMES, headNorms: HEAD_NORMS, experts: DEEPSEEK_EXPERTS },
  aliases: { num_experts: "n_routed_experts" },
  defaults: { norm_topk_prob: false },
  headNorm: HEAD_NORM,
  biases: { ...NO_BIAS, qkv: { field: "attention_bias" }, oProj: { field: "attention_bias" } },
  window: { kind: "from-layer", isOnField: "use_sliding_window", field: "max_window_layers" },
  variant: deepseekRouting,
};

const SOLAR_OPEN: Architecture = {
  ...LLAMA,
  className: "SolarOpenForCausalLM",
  weights: { ...LLAMA_NAMES, experts: DEEPSEEK_EXPERTS },
  aliases: { num_experts: "n_routed_experts" },
  defaults: { head_dim: 128, intermediate_size: 1, norm_topk_prob: true, num_experts_per_tok: 8, rms_norm_eps: 1e-5 },
  biases: { ...NO_BIAS, qkv: { field: "attention_bias" } },
  variant: deepseekRouting,
};

export const DOTS: readonly Architecture[] = [DOTS1, SOLAR_OPEN];
