/**
 * StableLM 2 and StableLM 3B: layer norms, positions in a part of each head, norms of heads with a weight for each, and in
 * some attention beside the MLP. Source: transformers, modeling_stablelm.py.
 */
import type { HfFields } from "../../../formats/hf/config-fields.ts";
import { LLAMA_NAMES, type WeightNames } from "../../../formats/hf/weight-names.ts";
import type { Architecture } from "../architecture.ts";
import { LLAMA, NO_BIAS } from "../base-rows.ts";

const NAMES: WeightNames = {
  ...LLAMA_NAMES,
  headNorms: ["self_attn.q_layernorm.norms.#", "self_attn.k_layernorm.norms.#"],
  headNormWeights: "tensors",
};
const { mlpNorm: _, ...ONE_NORM } = NAMES;

export const STABLELM: readonly Architecture[] = [
  {
    ...LLAMA,
    className: "StableLmForCausalLM",
    weights: NAMES,
    aliases: { rms_norm_eps: "layer_norm_eps" },
    defaults: { layer_norm_eps: 1e-5, partial_rotary_factor: 0.25 },
    norm: "layer",
    biases: { ...NO_BIAS, qkv: { field: "use_qkv_bias" } },
    variant: stableLmVariant,
  },
];

function stableLmVariant(fields: HfFields): Partial<Architecture> {
  const isParallel = fields.boolean("use_parallel_residual", false);
  const hasHeadNorm = fields.boolean("qk_layernorm", false);
  return {
    ...(isParallel ? { residual: "parallel" as const, weights: ONE_NORM } : {}),
    headNorm: hasHeadNorm ? { kind: "layer", scope: "head", isAfterRope: false } : undefined,
  };
}
