/** Which drafters an engine has, in the order in which they are asked. */
import type { Drafter } from "./drafter.ts";
import { NgramDrafter } from "./ngram-drafter.ts";
import type { SpeculationConfig } from "./speculation-config.ts";

/** The look-up costs nothing, so it comes first. */
export function createDrafters(
  config: SpeculationConfig,
  vocabSize: number,
  other: Drafter | undefined,
): readonly Drafter[] {
  const lookUp = config.maxDraftTokens > 0 && config.ngramSize > 0 ? [new NgramDrafter(config, vocabSize)] : [];
  return other === undefined ? lookUp : [...lookUp, other];
}
