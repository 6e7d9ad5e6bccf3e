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
export function wantedDrafts(sequence: Sequence, config: SpeculationConfig): number {
  const { numDrafts, numComputed, numTokens } = sequence;
  if (numDrafts > 0 || numComputed === 0 || numComputed !== numTokens - 1) return 0;
  return draftsAt(sequence, numTokens, config);
}

/** Whether a sequence has drafts, or wants some behind its next tokens: all others have paused, since drafts did not pay. */
export function wantDrafts(sequences: Iterable<Sequence>, config: SpeculationConfig): boolean {
  for (const sequence of sequences) {
    if (sequence.numDrafts > 0 || draftsAt(sequence, sequence.numTokens + sequence.numPending, config) > 0) return true;
  }
  return false;
}

function draftsAt(sequence: Sequence, numTokens: number, { maxDraftTokens }: SpeculationConfig): number {
  const { group, guide, cancelled, maxLength, pace, request } = sequence;
  if (group !== undefined || guide !== undefined || cancelled) return 0;
  const asked = request.maxDraftTokens;
  const most = Math.min(asked < 0 ? maxDraftTokens : asked, maxDraftTokens, maxLength - 1 - numTokens);
  return most > 0 ? pace.next(most) : 0;
}
