/**
 * What a request does to the scores before a token is chosen: bias, temperature, penalties, forbidden tokens, in the
 * order of TensorRT-LLM. It knows no device and chooses nothing.
 */
import type { Sequence } from "./sequence.ts";

/** True when the scores of a sequence's next token must be changed, so that the logits cannot be used as they are. */
export function needsRules(sequence: Sequence): boolean {
  const { request } = sequence;
  return (
    sequence.occurrences !== undefined ||
    request.logitBias !== undefined ||
    request.badWords.length > 0 ||
    sequence.numOutput < request.minTokens
  );
}

/** Changes `scores`, [vocab], in place for the next token of the sequence; `temperature` is positive. */
export function applyRules(scores: Float32Array, sequence: Sequence, temperature: number): void {
  const { request } = sequence;
  if (request.logitBias !== undefined) addBias(scores, request.logitBias);
  if (temperature !== 1) scale(scores, 1 / temperature);
  if (sequence.occurrences !== undefined) penalise(scores, sequence, sequence.occurrences);
  for (const word of request.badWords) {
    const last = word[word.length - 1];
    if (last !== undefined && endsWith(sequence, word, word.length - 1)) scores[last] = Number.NEGATIVE_INFINITY;
  }
  if (sequence.numOutput < request.minTokens) {
    for (const id of request.endIds) if (id >= 0 && id < scores.length) scores[id] = Number.NEGATIVE_INFINITY;
  }
}

/** Whether the sequence's tokens end with the first `length` tokens of `word`. */
export function endsWith(sequence: Sequence, word: Int32Array, length: number): boolean {
  const start = sequence.numTokens - length;
  if (start < 0) return false;
  for (let i = 0; i < length; i++) if (sequence.tokens[start + i] !== word[i]) return false;
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
