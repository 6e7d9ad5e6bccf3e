/** A second copy of a sequence, to which a drafter appends its drafts. It reaches no client. */
import { EMPTY_TOKENS } from "../request/generate.ts";
import { Sequence, type SequenceSink } from "../request/sequence.ts";

/** With the sequence's own parameters and random numbers, so that drafts are sampled as the model's tokens will be. */
export function createMirror(
  { request, seedLow, seedHigh, maxLength }: Sequence,
  { blockSize, vocabSize }: { readonly blockSize: number; readonly vocabSize: number },
): Sequence {
  const seed = (BigInt.asUintN(32, BigInt(seedHigh)) << 32n) | BigInt.asUintN(32, BigInt(seedLow));
  const silent = { logProbs: false, topLogProbs: 0, promptLogProbs: false, contextLogits: false };
  const own = { ...request, ...silent, generationLogits: false, draftTokens: EMPTY_TOKENS, seed };
  return new Sequence(own, NOWHERE, { blockSize, vocabSize, maxSequenceLength: maxLength });
}

/** Adds a draft behind those that the sequence has. */
export function addDraft(sequence: Sequence, token: number): void {
  sequence.reserve(sequence.numDrafts + 1);
  sequence.tokens[sequence.numTokens + sequence.numDrafts] = token;
  sequence.numDrafts += 1;
}

const NOWHERE: SequenceSink = {
  started: () => undefined,
  token: () => undefined,
  extra: () => undefined,
  beams: () => undefined,
  finished: () => undefined,
  failed: () => undefined,
};
