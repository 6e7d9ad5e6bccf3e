/** Which tensors of the files make up a draft head on a device. Pure. @see DraftHeadConfig */
import type { DraftHeadConfig } from "../config/draft-head.ts";
import { ModulePlans } from "./module-plans.ts";
import { describeLayer } from "./weight-plan.ts";
import type { LayerWeights, Norm, WeightPlan } from "./weight-tree.ts";

export interface DraftHeadWeights<T> {
  readonly embeddingNorm: Norm<T>;
  readonly hiddenNorm: Norm<T>;
  /** EAGLE-3: [hidden, 3 * hidden]. MTP: [hidden, 2 * hidden]. */
  readonly join: T;
  readonly layer: LayerWeights<T>;
  readonly norm: Norm<T>;
  /** [draftVocab, hidden]; undefined: the model's. */
  readonly output: T | undefined;
}

/** Rows that an EAGLE-3 head joins. */
const EAGLE_ROWS = 3;

/** Describes a head, `make` standing for each device tensor: always the same ones in the same order. */
export function describeDraftHead<T>(
  { kind, config, weights, names, hasOwnOutput }: DraftHeadConfig,
  make: (plan: WeightPlan) => T,
): DraftHeadWeights<T> {
  const plans = new ModulePlans(config, weights, make);
  const { hiddenSize, vocabSize } = config;
  const isEagle = kind === "eagle3";
  return {
    embeddingNorm: plans.norm(names.embeddingNorm),
    hiddenNorm: plans.norm(names.hiddenNorm),
    join: plans.matrix([names.join], [hiddenSize], (isEagle ? EAGLE_ROWS : 2) * hiddenSize),
    layer: describeLayer(plans, 0, names.layer, "", isEagle ? 2 * hiddenSize : hiddenSize),
    norm: plans.norm(names.norm),
    output: hasOwnOutput ? plans.output(weights.output, vocabSize) : undefined,
  };
}
