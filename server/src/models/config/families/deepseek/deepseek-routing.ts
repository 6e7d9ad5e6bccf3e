/** Experts as DeepSeek-V3 routes them, which many models took over. Source: transformers, modeling_deepseek_v3.py. */
import type { HfFields } from "../../../../formats/hf/config-fields.ts";
import { type ExpertNames, QWEN_EXPERTS } from "../../../../formats/hf/weight-names.ts";
import type { Architecture } from "../../architecture.ts";
import type { ExpertGroups } from "../../decoder-config.ts";

export const DEEPSEEK_EXPERTS: ExpertNames = {
  ...QWEN_EXPERTS,
  correction: "mlp.gate.e_score_correction_bias",
  sharedIn: ["mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj"],
  sharedOut: "mlp.shared_experts.down_proj",
};

const MAX_COUNT = 4096;

/** Sigmoid scores, a correction of the choice, groups, shared experts beside the others, dense layers in front. */
export function deepseekRouting(
  fields: HfFields,
): Pick<Architecture, "routing" | "sharedExpertsSize" | "numDenseLayers"> {
  const count = (name: string, byDefault: number): number =>
    fields.int(name, { min: 0, max: MAX_COUNT, default: byDefault });
  const numShared = count("n_shared_experts", 0);
  return {
    routing: {
      scores: "sigmoid",
      hasCorrection: true,
      groups: groupsOf(fields, 2),
      scale: fields.positive("routed_scaling_factor", 1),
    },
    sharedExpertsSize: numShared === 0 ? 0 : numShared * fields.int("moe_intermediate_size", { min: 1, max: 1 << 24 }),
    numDenseLayers: count("first_k_dense_replace", 0),
  };
}

/** Layers are listed as dense or sparse; without a list all but the first are sparse. */
export function listedExperts(fields: HfFields): (layer: number) => boolean {
  const listed = fields.get("mlp_layer_types");
  if (listed === undefined) return (layer) => layer > 0;
  const count = fields.int("num_hidden_layers", { min: 1, max: MAX_COUNT });
  const isKnown = (kind: unknown): boolean => kind === "dense" || kind === "sparse";
  if (Array.isArray(listed) && listed.length === count && listed.every(isKnown))
    return (layer) => listed[layer] === "sparse";
  throw fields.refusal("mlp_layer_types", `${count} times "dense" or "sparse"`, listed);
}

/** Undefined where all groups are taken. */
export function groupsOf(fields: HfFields, numBest: number): ExpertGroups | undefined {
  const numGroups = fields.int("n_group", { min: 1, max: MAX_COUNT, default: 1 });
  const numChosen = fields.int("topk_group", { min: 1, max: numGroups, default: numGroups });
  return numChosen === numGroups ? undefined : { numGroups, numChosen, numBest };
}
