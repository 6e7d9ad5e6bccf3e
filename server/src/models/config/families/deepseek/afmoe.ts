/**
 * AFMoE (Trinity): gated attention, positions in layers with a window only, norms on both sides of the branches, experts by sigmoid
 * scores. Source: transformers, modeling_afmoe.py.
 */
import type { HfFields } from "../../../../formats/hf/config-fields.ts";
import { HEAD_NORMS, LLAMA_NAMES } from "../../../../formats/hf/weight-names.ts";
import type { Architecture } from "../../architecture.ts";
import { HEAD_NORM, LLAMA, NO_BIAS } from "../../base-rows.ts";
import { DEEPSEEK_EXPERTS } from "./deepseek-routing.ts";

const SIZE = { min: 1, max: 1 << 24 } as const;

export const AFMOES: readonly Architecture[] = [
  {
    ...LLAMA,
    className: "AfmoeForCausalLM",
    weights: {
      ...LLAMA_NAMES,
      headNorms: HEAD_NORMS,
      outputGate: "self_attn.gate_proj",
      attentionPostNorm: "post_attention_layernorm",
      mlpNorm: "pre_mlp_layernorm",
      mlpPostNorm: "post_mlp_layernorm",
      experts: { ...DEEPSEEK_EXPERTS, router: "mlp.router.gate", correction: "mlp.expert_bias" },
    },
    defaults: { head_dim: 128, rms_norm_eps: 1e-5, norm_topk_prob: true, num_experts_per_tok: 6, sliding_window: 1024 },
    requires: { attention_bias: false, score_func: "sigmoid", route_norm: true },
    headNorm: HEAD_NORM,
    hasOutputGate: true,
    biases: NO_BIAS,
    window: { kind: "all-but-every", n: 4, field: "global_attn_every_n_layers" },
    withoutRope: (_layer, window) => window === undefined,
    noEffect: ["global_attn_every_n_layers", "n_group", "topk_group", "num_expert_groups", "num_limited_groups"],
    variant: (fields) => ({
      scales: { embedding: fields.boolean("mup_enabled", false) ? Math.sqrt(fields.int("hidden_size", SIZE)) : 1 },
      routing: { scores: "sigmoid", hasCorrection: true, scale: fields.positive("route_scale", 1) },
      sharedExpertsSize: sharedSize(fields),
      numDenseLayers: fields.int("num_dense_layers", { min: 0, max: 4096, default: 1 }),
    }),
  },
];

function sharedSize(fields: HfFields): number {
  return (
    fields.int("num_shared_experts", { min: 0, max: 4096, default: 2 }) * fields.int("moe_intermediate_size", SIZE)
  );
}
