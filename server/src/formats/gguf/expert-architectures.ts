/**
 * GGUF architectures whose experts are routed as those of DeepSeek-V3, or stand beside shared ones. Source: llama.cpp,
 * gguf-py/gguf/constants.py, tensor_mapping.py and conversion scripts.
 */
import type { GgufArchitecture, OwnKey } from "./architecture.ts";

export const QWEN_EXPERTS = {
  ffn_gate_exps: "mlp.experts.#.gate_proj",
  ffn_up_exps: "mlp.experts.#.up_proj",
  ffn_down_exps: "mlp.experts.#.down_proj",
} as const;

/** Experts as DeepSeek-V3 has them: the first layers dense, shared experts, a correction of the choice. */
export const DEEPSEEK_MOE: Pick<GgufArchitecture, "expertModules" | "layerTensors" | "modules" | "requires"> = {
  expertModules: QWEN_EXPERTS,
  layerTensors: { "exp_probs_b.bias": "mlp.gate.e_score_correction_bias" },
  modules: {
    ffn_gate_inp: "mlp.gate",
    ffn_gate_shexp: "mlp.shared_experts.gate_proj",
    ffn_up_shexp: "mlp.shared_experts.up_proj",
    ffn_down_shexp: "mlp.shared_experts.down_proj",
  },
  requires: { expert_gating_func: 2 },
};

export function deepseekFields(own: OwnKey): Readonly<Record<string, unknown>> {
  return {
    num_hidden_layers: Number(own("block_count")) - Number(own("nextn_predict_layers") ?? 0),
    moe_intermediate_size: own("expert_feed_forward_length"),
    num_local_experts: undefined,
    n_routed_experts: own("expert_count"),
    n_shared_experts: own("expert_shared_count"),
    first_k_dense_replace: own("leading_dense_block_count") ?? 0,
    routed_scaling_factor: own("expert_weights_scale") || undefined, // 0: none
    norm_topk_prob: own("expert_weights_norm") ?? false,
    n_group: own("expert_group_count") || undefined,
    topk_group: own("expert_group_used_count") || undefined,
  };
}

export const EXPERT_ROWS: readonly (readonly [name: string, row: GgufArchitecture])[] = [
  ["dots1", { ...DEEPSEEK_MOE, dense: "Dots1ForCausalLM", experts: "Dots1ForCausalLM", fields: deepseekFields }],
  [
    "hunyuan-moe",
    {
      dense: "HunYuanMoEV1ForCausalLM",
      experts: "HunYuanMoEV1ForCausalLM",
      expertModules: QWEN_EXPERTS,
      modules: {
        attn_q_norm: "self_attn.query_layernorm",
        attn_k_norm: "self_attn.key_layernorm",
        ffn_gate_inp: "mlp.gate.wg",
        ffn_gate_shexp: "mlp.shared_mlp.gate_proj",
        ffn_up_shexp: "mlp.shared_mlp.up_proj",
        ffn_down_shexp: "mlp.shared_mlp.down_proj",
      },
      fields: (own) => ({
        moe_topk: own("expert_used_count"),
        intermediate_size: own("expert_feed_forward_length") ?? own("feed_forward_length"),
      }),
    },
  ],
  [
    "exaone-moe",
    {
      ...DEEPSEEK_MOE,
      dense: "ExaoneMoeForCausalLM",
      experts: "ExaoneMoeForCausalLM",
      layerTensors: { "exp_probs_b.bias": "mlp.e_score_correction_bias" },
      fields: (own) => {
        const { n_shared_experts: shared, n_routed_experts: _, ...fields } = deepseekFields(own);
        const count = Number(fields.num_hidden_layers);
        const numDense = Number(fields.first_k_dense_replace);
        const kinds = Array.from({ length: count }, (_, layer) => (layer < numDense ? "dense" : "sparse"));
        return { ...fields, num_experts: own("expert_count"), num_shared_experts: shared, mlp_layer_types: kinds };
      },
    },
  ],
  [
    "ernie4_5-moe",
    {
      dense: "Ernie4_5_MoeForCausalLM",
      experts: "Ernie4_5_MoeForCausalLM",
      expertModules: QWEN_EXPERTS,
      layerTensors: { "exp_probs_b.bias": "mlp.moe_statics.e_score_correction_bias" },
      modules: DEEPSEEK_MOE.modules ?? {},
      fields: (own) => ({
        moe_num_experts: own("expert_count"),
        num_local_experts: undefined,
        moe_k: own("expert_used_count"),
        moe_intermediate_size: own("expert_feed_forward_length"),
        moe_num_shared_experts: own("expert_shared_count") ?? 0,
        moe_layer_start_index: own("leading_dense_block_count") ?? 0,
        moe_layer_interval: own("interleave_moe_layer_step") ?? 1,
      }),
    },
  ],
  [
    "afmoe",
    {
      ...DEEPSEEK_MOE,
      dense: "AfmoeForCausalLM",
      experts: "AfmoeForCausalLM",
      layerTensors: { "exp_probs_b.bias": "mlp.expert_bias" },
      modules: {
        ...DEEPSEEK_MOE.modules,
        ffn_gate_inp: "mlp.router.gate",
        attn_gate: "self_attn.gate_proj",
        post_attention_norm: "post_attention_layernorm",
        ffn_norm: "pre_mlp_layernorm",
        post_ffw_norm: "post_mlp_layernorm",
      },
      // Files do not say the factor of embeddings, which the published models have.
      fields: (own) => ({
        moe_intermediate_size: own("expert_feed_forward_length"),
        num_shared_experts: own("expert_shared_count"),
        num_dense_layers: own("leading_dense_block_count") ?? 0,
        route_scale: own("expert_weights_scale") || undefined, // 0: none
        mup_enabled: true,
      }),
    },
  ],
];
