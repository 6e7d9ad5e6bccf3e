/**
 * Qwen3-Next and Qwen3.5: three layers of Gated DeltaNet, then one of attention with gated outputs, and so on; dense or with
 * experts. Source: transformers, modeling_qwen3_next.py, modeling_qwen3_5.py and modeling_qwen3_5_moe.py.
 */
import type { HfFields } from "../../../../formats/hf/config-fields.ts";
import { HEAD_NORMS, LLAMA_NAMES, QWEN_EXPERTS, type WeightNames } from "../../../../formats/hf/weight-names.ts";
import type { Architecture } from "../../architecture.ts";
import { HEAD_NORM, LLAMA, NO_BIAS } from "../../base-rows.ts";
import type { RecurrentLayer } from "../../decoder-config.ts";
import { listedRecurrent } from "./recurrent-layers.ts";

const DELTA_NET = {
  out: "linear_attn.out_proj",
  conv: "linear_attn.conv1d",
  timeBias: "linear_attn.dt_bias",
  decay: "linear_attn.A_log",
  norm: "linear_attn.norm",
} as const;
const SHARED = {
  sharedIn: ["mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj"],
  sharedOut: "mlp.shared_expert.down_proj",
  sharedGate: "mlp.shared_expert_gate",
} as const;
const NEXT_NAMES: WeightNames = {
  ...LLAMA_NAMES,
  headNorms: HEAD_NORMS,
  recurrent: { ...DELTA_NET, in: ["linear_attn.in_proj_qkvz", "linear_attn.in_proj_ba"], isGrouped: true },
  experts: { ...QWEN_EXPERTS, ...SHARED },
};
const IN = ["in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a"].map((name) => `linear_attn.${name}`);
const DENSE_NAMES: WeightNames = {
  ...LLAMA_NAMES,
  prefixes: ["model.language_model.", "model."],
  headNorms: HEAD_NORMS,
  recurrent: { ...DELTA_NET, in: IN },
};
/** Published files of Qwen3.5 have the matrices of all experts behind each other. */
const STACKED = {
  router: "mlp.gate",
  mlpIn: ["mlp.experts.gate_up_proj"],
  mlpOut: "mlp.experts.down_proj",
  hasBareTensors: true,
} as const;
const SIZE = { min: 1, max: 1 << 16 } as const;
/** Every nth layer attends. */
const INTERVAL = 4;

const NEXT: Architecture = {
  ...LLAMA,
  className: "Qwen3NextForCausalLM",
  weights: NEXT_NAMES,
  norm: "rms-plus-one",
  headNorm: HEAD_NORM,
  hasOutputGate: true,
  window: { kind: "none" },
  biases: { ...NO_BIAS, qkv: { field: "attention_bias" }, oProj: { field: "attention_bias" } },
  defaults: {
    head_dim: 256,
    partial_rotary_factor: 0.25,
    norm_topk_prob: true,
    num_experts_per_tok: 10,
    linear_conv_kernel_dim: 4,
    linear_key_head_dim: 128,
    linear_value_head_dim: 128,
    linear_num_key_heads: 16,
    linear_num_value_heads: 32,
  },
  requires: { hidden_act: "silu" },
  noEffect: ["full_attention_interval"],
  variant: deltaVariant,
};

const DENSE: Architecture = {
  ...NEXT,
  className: "Qwen3_5ForCausalLM",
  weights: DENSE_NAMES,
  section: "text_config",
  isSectionOptional: true,
  noEffect: ["full_attention_interval", "attn_output_gate", "mamba_ssm_dtype", "mtp_*"],
};
const SPARSE: Architecture = {
  ...DENSE,
  className: "Qwen3_5MoeForCausalLM",
  weights: { ...DENSE_NAMES, experts: { ...QWEN_EXPERTS, ...SHARED }, stackedExperts: { ...STACKED, ...SHARED } },
  // They have no dense layers, and no field that says so.
  intermediateField: "moe_intermediate_size",
  defaults: { ...NEXT.defaults, num_experts_per_tok: 8 },
};

export const QWEN_NEXTS: readonly Architecture[] = [
  NEXT,
  DENSE,
  SPARSE,
  { ...DENSE, className: "Qwen3_5ForConditionalGeneration" },
  { ...SPARSE, className: "Qwen3_5MoeForConditionalGeneration" },
];

function deltaVariant(fields: HfFields): Partial<Architecture> {
  const recurrent: RecurrentLayer = {
    kind: "delta-net",
    numKeyHeads: fields.int("linear_num_key_heads", SIZE),
    numValueHeads: fields.int("linear_num_value_heads", SIZE),
    headDim: fields.int("linear_value_head_dim", SIZE),
    convWidth: fields.int("linear_conv_kernel_dim", { min: 2, max: 64 }),
  };
  const { numKeyHeads, numValueHeads, headDim } = recurrent;
  const keyDim = fields.int("linear_key_head_dim", SIZE);
  if (keyDim !== headDim) throw fields.refusal("linear_key_head_dim", `linear_value_head_dim, ${headDim}`, keyDim);
  if (numValueHeads % numKeyHeads !== 0)
    throw fields.refusal("linear_num_value_heads", `a multiple of ${numKeyHeads}`, numValueHeads);
  const interval = fields.int("full_attention_interval", { min: 1, max: 4096, default: INTERVAL });
  const isListed = listedRecurrent(fields, "layer_types", ["linear_attention"]);
  return { recurrent, isRecurrent: isListed ?? ((layer) => (layer + 1) % interval !== 0) };
}
