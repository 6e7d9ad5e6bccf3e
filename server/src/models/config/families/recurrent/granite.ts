/**
 * Granite 3 and 4: Llama with factors of embeddings, scores, branches and logits; experts with one that all tokens take.
 * Granite 4 has Mamba-2 in most layers. HyperCLOVA X is Granite with norms behind the branches. Source: transformers,
 * modeling_granite.py, modeling_granitemoe.py, modeling_granitemoeshared.py, modeling_granitemoehybrid.py and
 * modeling_hyperclovax.py.
 */
import type { HfFields } from "../../../../formats/hf/config-fields.ts";
import { type ExpertNames, LLAMA_NAMES, type WeightNames } from "../../../../formats/hf/weight-names.ts";
import type { Architecture, Scales } from "../../architecture.ts";
import { LLAMA, NO_BIAS } from "../../base-rows.ts";
import { MAMBA2_DEFAULTS, MAMBA2_NAMES, mambaVariant } from "./mamba2.ts";

const ATTENTION_BIAS = { ...NO_BIAS, qkv: { field: "attention_bias" }, oProj: { field: "attention_bias" } };
const MAX_SIZE = 1 << 24;
const SIZE = { min: 1, max: MAX_SIZE } as const;

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

const HYBRID_NAMES: WeightNames = {
  ...MOE_SHARED.weights,
  recurrent: MAMBA2_NAMES,
};

const HYBRID: Architecture = {
  ...MOE_SHARED,
  className: "GraniteMoeHybridForCausalLM",
  weights: HYBRID_NAMES,
  defaults: {
    ...MOE.defaults,
    ...MAMBA2_DEFAULTS,
  },
  noEffect: ["mamba_*", "normalization_function", "attention_head_dim"],
  variant: hybridVariant,
};

/** HyperCLOVA X: logits are multiplied, and branches may have norms behind them. */
const HYPERCLOVA: Architecture = {
  ...GRANITE,
  className: "HyperCLOVAXForCausalLM",
  variant: (fields) => {
    const hasPostNorms = fields.boolean("use_post_norm", true);
    const headDim = fields.int("hidden_size", SIZE) / fields.int("num_attention_heads", SIZE);
    const byDefault = 1 / Math.sqrt(fields.get("head_dim") === undefined ? headDim : fields.int("head_dim", SIZE));
    return {
      ...(hasPostNorms
        ? { weights: { ...LLAMA_NAMES, attentionPostNorm: "post_norm1", mlpPostNorm: "post_norm2" } }
        : {}),
      scales: {
        ...scalesOf(fields),
        attention: fields.positive("attention_multiplier", byDefault),
        logits: fields.positive("logits_scaling", 1),
      },
    };
  },
};

export const GRANITES: readonly Architecture[] = [GRANITE, MOE, MOE_SHARED, HYBRID, HYPERCLOVA];

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
  const positions = fields.get("position_embedding_type") === "rope" ? "rope" : "none";
  const shared: Partial<Architecture> = {
    ...mambaVariant(fields),
    scales: scalesOf(fields),
    positions,
    window: { kind: "none" },
  };
  if (fields.int("num_local_experts", { min: 0, max: 4096, default: 8 }) > 0)
    return { ...shared, sharedExpertsSize: sharedSize(fields) };
  const { experts: _, ...names } = HYBRID_NAMES;
  return { ...shared, weights: { ...names, ...SHARED_MLP }, intermediateField: "shared_intermediate_size" };
}
