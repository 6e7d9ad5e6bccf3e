/**
 * Granite 3 and 4: Llama with factors of embeddings, scores, branches and logits; experts with one that all tokens take.
 * Granite 4 has attention layers only, or is refused: Mamba layers are not computed here. Source: transformers,
 * modeling_granite.py, modeling_granitemoe.py, modeling_granitemoeshared.py and modeling_granitemoehybrid.py.
 */
import type { HfFields } from "../../../formats/hf/config-fields.ts";
import { type ExpertNames, LLAMA_NAMES } from "../../../formats/hf/weight-names.ts";
import type { Architecture, Scales } from "../architecture.ts";
import { LLAMA, NO_BIAS } from "../base-rows.ts";

const ATTENTION_BIAS = { ...NO_BIAS, qkv: { field: "attention_bias" }, oProj: { field: "attention_bias" } };
const MAX_SIZE = 1 << 24;

const GRANITE: Architecture = {
  ...LLAMA,
  className: "GraniteForCausalLM",
  weights: LLAMA_NAMES,
  variant: (fields) => ({ scales: scalesOf(fields) }),
};

const EXPERTS: ExpertNames = {
  router: "block_sparse_moe.router.layer",
  mlpIn: ["block_sparse_moe.input_linear"],
  mlpOut: "block_sparse_moe.output_linear",
};

const MOE: Architecture = {
  ...GRANITE,
  className: "GraniteMoeForCausalLM",
  weights: { ...LLAMA_NAMES, experts: EXPERTS },
  aliases: { moe_intermediate_size: "intermediate_size" },
  defaults: { norm_topk_prob: true },
  biases: ATTENTION_BIAS,
};

const SHARED_MLP = { mlpIn: ["shared_mlp.input_linear"], mlpOut: "shared_mlp.output_linear" } as const;
const SHARED_NAMES: ExpertNames = { ...EXPERTS, sharedIn: SHARED_MLP.mlpIn, sharedOut: SHARED_MLP.mlpOut };

const MOE_SHARED: Architecture = {
  ...MOE,
  className: "GraniteMoeSharedForCausalLM",
  weights: { ...LLAMA_NAMES, experts: SHARED_NAMES },
  variant: (fields) => ({ scales: scalesOf(fields), sharedExpertsSize: sharedSize(fields) }),
};

const HYBRID: Architecture = {
  ...MOE_SHARED,
  className: "GraniteMoeHybridForCausalLM",
  noEffect: ["mamba_*", "normalization_function", "attention_head_dim"],
  variant: hybridVariant,
};

export const GRANITES: readonly Architecture[] = [GRANITE, MOE, MOE_SHARED, HYBRID];

function scalesOf(fields: HfFields): Scales {
  return {
    embedding: fields.positive("embedding_multiplier", 1),
    attention: fields.positive("attention_multiplier", 1),
    residual: fields.positive("residual_multiplier", 1),
    logits: 1 / fields.positive("logits_scaling", 1),
  };
}

function sharedSize(fields: HfFields): number {
  return fields.int("shared_intermediate_size", { min: 0, max: MAX_SIZE, default: 0 });
}

/** Without experts, the MLP that all tokens take is all. */
function hybridVariant(fields: HfFields): Partial<Architecture> {
  expectAttentionOnly(fields);
  const positions = fields.get("position_embedding_type") === "rope" ? "rope" : "none";
  const shared: Partial<Architecture> = {
    scales: scalesOf(fields),
    positions,
    window: { kind: "none" },
  };
  if (fields.int("num_local_experts", { min: 0, max: 4096, default: 8 }) > 0)
    return { ...shared, sharedExpertsSize: sharedSize(fields) };
  const { experts: _, ...names } = LLAMA_NAMES;
  return { ...shared, weights: { ...names, ...SHARED_MLP }, intermediateField: "shared_intermediate_size" };
}

function expectAttentionOnly(fields: HfFields): void {
  const name = fields.get("layer_types") === undefined ? "layers_block_type" : "layer_types";
  const kinds = fields.get(name);
  const isAttention = (kind: unknown): boolean => kind === "attention" || kind === "full_attention";
  if (Array.isArray(kinds) && kinds.every(isAttention)) return;
  throw fields.refusal(name, "attention in every layer: Mamba layers are not computed here", kinds);
}
