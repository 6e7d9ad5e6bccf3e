/**
 * The contract between the engine and a source of draft tokens (speculative decoding, Leviathan et al. 2023). Drafts
 * follow a sequence's tokens; the next step verifies them along with its last token. Each accepted draft saves a step.
 */
import type { Sequence } from "../request/sequence.ts";
import type { SpeculationConfig } from "./speculation-config.ts";

export interface Drafter {
  /** Adds drafts to the sequences that have none and want some. */
  propose(sequences: Iterable<Sequence>): Promise<void> | void;
  /** Whether steps wait for the tokens before them now, so that drafts can follow. Absent: they always do. */
  holdsBack?(sequences: Iterable<Sequence>): boolean;
  /** A sequence is over: what is kept for it can go. */
  forget?(sequence: Sequence): void;
  close?(): Promise<void>;
}

/** Draft tokens wanted for a sequence in the next step: none unless it decodes, without beams and without a guide. */
export function wantedDrafts(sequence: Sequence, { maxDraftTokens }: SpeculationConfig): number {
  const { group, guide, cancelled, numDrafts, numComputed, numTokens, maxLength } = sequence;
  if (group !== undefined || guide !== undefined || cancelled || numDrafts > 0) return 0;
  if (numComputed === 0 || numComputed !== numTokens - 1) return 0;
  const asked = sequence.request.maxDraftTokens;
  const most = Math.min(asked < 0 ? maxDraftTokens : asked, maxDraftTokens, maxLength - 1 - numTokens);
  return most > 0 ? sequence.pace.next(most) : 0;
}
