/**
 * Hunyuan, dense and with experts: norms of query and key heads behind the rotation. Source: transformers,
 * modeling_hunyuan_v1_dense.py and modeling_hunyuan_v1_moe.py.
 */
import { LLAMA_NAMES } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { LLAMA, NO_BIAS } from "../base-rows.ts";

const DENSE: Architecture = {
  ...LLAMA,
  className: "HunYuanDenseV1ForCausalLM",
  weights: { ...LLAMA_NAMES, headNorms: ["self_attn.query_layernorm", "self_attn.key_layernorm"] },
  defaults: { rms_norm_eps: 1e-5 },
  headNorm: { kind: "rms", scope: "head", isAfterRope: true },
  biases: { ...NO_BIAS, qkv: { field: "attention_bias" }, oProj: { field: "attention_bias" } },
};

const SPARSE: Architecture = {
  ...DENSE,
  className: "HunYuanMoEV1ForCausalLM",
  weights: {
    ...DENSE.weights,
    experts: {
      router: "mlp.gate.wg",
      mlpIn: ["mlp.experts.#.gate_proj", "mlp.experts.#.up_proj"],
      mlpOut: "mlp.experts.#.down_proj",
      sharedIn: ["mlp.shared_mlp.gate_proj", "mlp.shared_mlp.up_proj"],
      sharedOut: "mlp.shared_mlp.down_proj",
    },
  },
  aliases: { num_experts_per_tok: "moe_topk", moe_intermediate_size: "intermediate_size" },
  defaults: { ...DENSE.defaults, norm_topk_prob: true },
  requires: {
    use_cla: false,
    use_mixed_mlp_moe: true,
    group_limited_greedy: false,
    norm_type: "rms",
    use_qk_norm: true,
  },
  noEffect: ["cla_share_factor", "moe_*", "num_shared_expert", "routed_scaling_factor"],
  variant: (fields) => ({ sharedExpertsSize: fields.int("intermediate_size", { min: 1, max: 1 << 24 }) }),
};

export const HUNYUAN: readonly Architecture[] = [DENSE, SPARSE];
