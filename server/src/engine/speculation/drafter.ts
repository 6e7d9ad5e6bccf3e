/**
 * The contract between the engine and what guesses tokens for it. Guesses stand behind a sequence's tokens; the next step
 * computes them along with its last token, and each one that the sequence would have chosen anyway saves a step.
 */
import type { Sequence } from "../request/sequence.ts";
import type { SpeculationConfig } from "./speculation-config.ts";

export interface Drafter {
  /** Guesses for those among the sequences that have no guesses yet and want some. */
  propose(sequences: Iterable<Sequence>): Promise<void> | void;
  /** A sequence is over: what is kept for it can go. */
  forget?(sequence: Sequence): void;
  close?(): Promise<void>;
}

/** Guesses wanted for a sequence in the next step: none unless it decodes, on its own and without a guide. */
export function wantedDrafts(sequence: Sequence, { maxDraftTokens }: SpeculationConfig): number {
  const { group, guide, cancelled, numDrafts, numComputed, numTokens, maxLength } = sequence;
  if (group !== undefined || guide !== undefined || cancelled || numDrafts > 0) return 0;
  if (numComputed === 0 || numComputed !== numTokens - 1) return 0;
  const asked = sequence.request.maxDraftTokens;
  const most = Math.min(asked < 0 ? maxDraftTokens : asked, maxDraftTokens, maxLength - 1 - numTokens);
  return most > 0 ? sequence.pace.next(most) : 0;
}
