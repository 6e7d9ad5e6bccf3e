/** Which drafters an engine has, in the order in which they are asked. */
import { ServerError } from "../../core/server-error.ts";
import type { StepRunner } from "../step-runner.ts";
import type { Drafter } from "./drafter.ts";
import { ForcedDrafter } from "./forced-drafter.ts";
import { NgramDrafter } from "./ngram-drafter.ts";
import type { SpeculationConfig } from "./speculation-config.ts";

/** Steps that are planned ahead of their tokens gain more than forced runs save: bench/gpu/results/traffic.md. */
export function draftsForcedRuns({ stepsAhead = false }: Pick<StepRunner, "stepsAhead">): boolean {
  return !stepsAhead;
}

/**
 * The look-up costs nothing, so it comes first.
 * @throws ServerError for drafts with a model whose states cannot be taken back
 */
export function createDrafters(
  config: SpeculationConfig,
  { vocabSize, numStates, encoder, stepsAhead = false }: StepRunner,
  other: Drafter | undefined,
): readonly Drafter[] {
  if (numStates !== undefined && encoder === undefined) {
    const why = "states of recurrent layers cannot be taken back after a wrong draft";
    if (config.maxDraftTokens === 0) return [];
    throw new ServerError("unsupported", `speculative decoding: expected none with this model, as ${why}`);
  }
  const lookUp =
    config.maxDraftTokens > 0 && config.ngramSize > 0 ? [new NgramDrafter(config, vocabSize, stepsAhead)] : [];
  const forced = draftsForcedRuns({ stepsAhead }) ? [new ForcedDrafter()] : [];
  return [...forced, ...lookUp, ...(other === undefined ? [] : [other])];
}
