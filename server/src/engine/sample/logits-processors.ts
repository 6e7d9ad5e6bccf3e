/**
 * Logits processors of a request, applied before a token is chosen: bias, temperature, penalties, forbidden tokens, in
 * TensorRT-LLM's order. No device, no choice.
 */
import type { Sequence } from "../request/sequence.ts";

/** True when the scores of a sequence's next token must be changed, so that the logits cannot be used as they are. */
export function needsLogitsProcessors(sequence: Sequence): boolean {
  const { request } = sequence;
  return (
    sequence.occurrences !== undefined ||
    request.logitBias !== undefined ||
    request.badWords.length > 0 ||
    request.noRepeatNgramSize > 0 ||
    sequence.guide !== undefined ||
    sequence.postProcess !== undefined ||
    sequence.numOutput < request.minTokens
  );
}

/** Changes `scores`, [vocab], in place for the next token of the sequence; `temperature` is positive. */
export function applyLogitsProcessors(scores: Float32Array, sequence: Sequence, temperature: number): void {
  const { request } = sequence;
  sequence.postProcess?.(scores, sequence.tokens.subarray(0, sequence.numTokens), sequence.promptLength);
  if (request.logitBias !== undefined) addBias(scores, request.logitBias);
  if (temperature !== 1) scale(scores, 1 / temperature);
  if (sequence.occurrences !== undefined) penalise(scores, sequence, sequence.occurrences);
  eachBanned(sequence, (id) => {
    if (id >= 0 && id < scores.length) scores[id] = Number.NEGATIVE_INFINITY;
  });
  if (sequence.guide !== undefined) applyMask(scores, sequence.guide.mask);
}

/**
 * Calls `ban` with each token that may not come next, beside those that the guide forbids: ends of words, repeated runs of
 * tokens, ends of a text that is too short. Ids may lie outside the vocabulary, and come more than once.
 */
export function eachBanned(sequence: Sequence, ban: (id: number) => void): void {
  const { request } = sequence;
  banWords(sequence, ban);
  if (request.noRepeatNgramSize > 0) banRepeats(sequence, request.noRepeatNgramSize, ban);
  if (sequence.numOutput < request.minTokens && !mustEnd(sequence)) sequence.endIds.forEach(ban);
}

/** Whether the sequence's tokens end with the first `length` tokens of `word`. */
export function endsWith(sequence: Sequence, word: Int32Array, length: number): boolean {
  const start = sequence.numTokens - length;
  if (start < 0) return false;
  for (let i = 0; i < length; i++) if (sequence.tokens[start + i] !== word[i]) return false;
  return true;
}

function banWords(sequence: Sequence, ban: (id: number) => void): void {
  for (const word of sequence.request.badWords) {
    const last = word[word.length - 1];
    if (last !== undefined && endsWith(sequence, word, word.length - 1)) ban(last);
  }
}

/** Forbids each token that followed the last `size - 1` tokens before. */
function banRepeats({ tokens, numTokens }: Sequence, size: number, ban: (id: number) => void): void {
  const tail = numTokens - size + 1;
  for (let start = 0; start < tail; start++) {
    let same = 0;
    while (same < size - 1 && tokens[start + same] === tokens[tail + same]) same += 1;
    if (same === size - 1) ban(tokens[start + size - 1] ?? -1);
  }
}

/** One bit a token, 1 = allowed; tokens beyond the mask are not. */
function applyMask(scores: Float32Array, mask: Int32Array): void {
  for (let id = 0; id < scores.length; id++) {
    if ((((mask[id >> 5] ?? 0) >>> (id & 31)) & 1) === 0) scores[id] = Number.NEGATIVE_INFINITY;
  }
}

/** A text that is complete and cannot go on ends, however short it is. */
function mustEnd({ guide, endIds }: Sequence): boolean {
  if (guide === undefined) return false;
  for (let word = 0; word < guide.mask.length; word++) {
    let bits = guide.mask[word] ?? 0;
    for (const id of endIds) if (id >> 5 === word) bits &= ~(1 << (id & 31));
    if (bits !== 0) return false;
  }
  return true;
}

function addBias(scores: Float32Array, bias: Float32Array): void {
  for (let i = 0; i < scores.length; i++) scores[i] = (scores[i] ?? 0) + (bias[i] ?? 0);
}

function scale(scores: Float32Array, factor: number): void {
  for (let i = 0; i < scores.length; i++) scores[i] = (scores[i] ?? 0) * factor;
}

function penalise(scores: Float32Array, sequence: Sequence, occurrences: ReadonlyMap<number, number>): void {
  const { repetitionPenalty, presencePenalty, frequencyPenalty } = sequence.request;
  for (const [token, count] of occurrences) {
    if (token >= scores.length) continue; // a row of a prompt table
    let score = scores[token] ?? 0;
    score = score < 0 ? score * repetitionPenalty : score / repetitionPenalty;
    if (count > 0) score -= presencePenalty + frequencyPenalty * count;
    scores[token] = score;
  }
}
