/** Apertus: xIELU with parameters of each layer in place of a gated activation. Source: transformers, modeling_apertus.py. */
import { HEAD_NORMS, LLAMA_NAMES } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { HEAD_NORM, LLAMA, NO_BIAS } from "../base-rows.ts";

export const APERTUS: readonly Architecture[] = [
  {
    ...LLAMA,
    className: "ApertusForCausalLM",
    weights: {
      ...LLAMA_NAMES,
      attentionNorm: "attention_layernorm",
      headNorms: HEAD_NORMS,
      mlpNorm: "feedforward_layernorm",
      mlpIn: ["mlp.up_proj"],
      xielu: { positive: "mlp.act_fn.alpha_p", negative: "mlp.act_fn.alpha_n", linear: "mlp.act_fn.beta" },
    },
    defaults: { hidden_act: "xielu", rms_norm_eps: 1e-5, rope_theta: 12e6 },
    isGated: false,
    headNorm: HEAD_NORM,
    biases: { ...NO_BIAS, qkv: { field: "attention_bias" }, oProj: { field: "attention_bias" } },
  },
];
