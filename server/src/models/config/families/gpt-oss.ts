/**
 * gpt-oss: attention sinks, windows in every other layer, experts with biases and a clamped activation. Source:
 * transformers, modeling_gpt_oss.py.
 */
import { LLAMA_NAMES } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { LLAMA, NO_BIAS } from "../base-rows.ts";

const ROUTER = { router: "mlp.router", hasRouterBias: true, hasBias: true } as const;

export const GPT_OSS: readonly Architecture[] = [
  {
    ...LLAMA,
    className: "GptOssForCausalLM",
    weights: {
      ...LLAMA_NAMES,
      sinks: "self_attn.sinks",
      // As formats/gguf gives them.
      experts: {
        ...ROUTER,
        mlpIn: ["mlp.experts.#.gate_proj", "mlp.experts.#.up_proj"],
        mlpOut: "mlp.experts.#.down_proj",
      },
      // Rows as formats/quantized/gpt-oss-experts.ts gives them.
      stackedExperts: { ...ROUTER, mlpIn: ["mlp.experts.gate_up_proj"], mlpOut: "mlp.experts.down_proj" },
    },
    aliases: { moe_intermediate_size: "intermediate_size" },
    defaults: {
      attention_bias: true,
      head_dim: 64,
      norm_topk_prob: true,
      num_experts_per_tok: 4,
      rms_norm_eps: 1e-5,
      rope_theta: 150_000,
      sliding_window: 128,
    },
    activation: "swiglu-clamped",
    hasSinks: true,
    biases: { ...NO_BIAS, qkv: { field: "attention_bias" }, oProj: { field: "attention_bias" } },
    window: { kind: "all-but-every", n: 2 },
    noEffect: ["hidden_act", "experts_per_token", "initial_context_length"],
    variant: (fields) => ({
      clamp: { alpha: fields.positive("swiglu_alpha", 1.702), limit: fields.positive("swiglu_limit", 7) },
    }),
  },
];
