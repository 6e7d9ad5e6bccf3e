/**
 * Applies one row of logits to its sequence: choose a token, append it, report it with the requested extras. It knows
 * neither the planner nor the device. It returns the finish reason and leaves ending to the caller.
 */
import { ServerError } from "../../core/server-error.ts";
import type { FinishReason } from "../request/generate.ts";
import type { Sequence } from "../request/sequence.ts";
import { logProb, topLogProbsOf } from "../sample/log-probs.ts";
import { endsWith, needsLogitsProcessors } from "../sample/logits-processors.ts";
import { Sampler } from "../sample/sampler.ts";
import { type ChosenTokens, MAX_TOP_LOG_PROBS } from "../step-runner.ts";

export class TokenStep {
  readonly sampler: Sampler;
  readonly #vocabSize: number;

  constructor(vocabSize: number) {
    this.sampler = new Sampler(vocabSize);
    this.#vocabSize = vocabSize;
  }

  /** Why the sequence ends now, if it does. @throws ServerError that concerns this sequence alone */
  take(sequence: Sequence, row: Float32Array, now: number): FinishReason | undefined {
    const token = this.#choose(sequence, row);
    const { request, sink } = sequence;
    const isEnd = noteToken(sequence, token, now);
    if (isEnd) return "end";
    sink.token(token, request.logProbs ? logProb(row, token) : 0);
    if (request.generationLogits) sink.extra("generationLogits", row.slice());
    if (request.topLogProbs > 0) this.#tellTop(sequence, row, "topIds", "topLogProbs", 1);
    return afterToken(sequence, token);
  }

  /** The same for the token that the device has chosen for row `at`. @throws ServerError that concerns this sequence alone */
  takeChosen(sequence: Sequence, chosen: ChosenTokens, at: number, now: number): FinishReason | undefined {
    expectGuided(sequence);
    const token = chosen.tokens[at] ?? -1;
    const { request, sink } = sequence;
    if (token < 0) throw nothingToChoose(sequence);
    if (noteToken(sequence, token, now)) return "end";
    sink.token(token, request.logProbs ? (chosen.logProbs[at] ?? 0) : 0);
    if (request.topLogProbs > 0 && chosen.top !== undefined) {
      const [first, end] = [at * MAX_TOP_LOG_PROBS, at * MAX_TOP_LOG_PROBS + request.topLogProbs];
      sink.extra("topIds", chosen.top.ids.slice(first, end));
      sink.extra("topLogProbs", chosen.top.logProbs.slice(first, end));
    }
    return afterToken(sequence, token);
  }

  /** Reports the requested extras of `count` prompt rows, from the first unreported one. */
  takePrompt(sequence: Sequence, rows: Float32Array, count: number): void {
    const { request, sink, numPromptRows, promptLength } = sequence;
    sequence.numPromptRows += count;
    if (request.contextLogits) sink.extra("contextLogits", rows.slice());
    // The row of a token tells of the next one: that of the last prompt token tells of the output.
    const numFollowed = Math.min(count, promptLength - 1 - numPromptRows);
    if (!request.promptLogProbs || numFollowed <= 0) return;
    const values = new Float32Array(numFollowed);
    for (let i = 0; i < numFollowed; i++) {
      const next = sequence.tokens[numPromptRows + i + 1] ?? 0;
      values[i] = logProb(this.#row(rows, i), next);
    }
    sink.extra("promptLogProbs", values);
    if (request.topLogProbs > 0) this.#tellTop(sequence, rows, "promptTopIds", "promptTopLogProbs", numFollowed);
  }

  #choose(sequence: Sequence, row: Float32Array): number {
    expectGuided(sequence);
    const token = this.#likelyDraft(sequence, row) ?? this.sampler.sample(row, sequence);
    if (token >= 0) return token;
    throw nothingToChoose(sequence);
  }

  /** The next draft, where the request takes likely ones and has no rules that might forbid it. */
  #likelyDraft(sequence: Sequence, row: Float32Array): number | undefined {
    const threshold = sequence.request.draftAcceptanceThreshold;
    if (threshold === 0 || sequence.numDrafts === 0 || needsLogitsProcessors(sequence)) return undefined;
    const draft = sequence.tokens[sequence.numTokens] ?? -1;
    return logProb(row, draft) >= Math.log(threshold) ? draft : undefined;
  }

  #tellTop(
    sequence: Sequence,
    rows: Float32Array,
    idsKind: "topIds" | "promptTopIds",
    valuesKind: "topLogProbs" | "promptTopLogProbs",
    numRows: number,
  ): void {
    const count = sequence.request.topLogProbs;
    const ids = new Int32Array(numRows * count);
    const values = new Float32Array(numRows * count);
    for (let i = 0; i < numRows; i++) {
      const row = this.#row(rows, i);
      topLogProbsOf(row, count, ids, values, i * count);
    }
    sequence.sink.extra(idsKind, ids);
    sequence.sink.extra(valuesKind, values);
  }

  #row(rows: Float32Array, index: number): Float32Array {
    return rows.subarray(index * this.#vocabSize, (index + 1) * this.#vocabSize);
  }
}

/** @throws ServerError when its guide gives no more masks */
function expectGuided({ guide }: Sequence): void {
  const failure = guide?.failure;
  if (failure instanceof ServerError) throw failure;
  if (failure !== undefined) throw new ServerError("internal", `guided decoding failed: ${failure.message}`);
}

/** Appends the token; true when it ends the sequence and is no part of it. */
function noteToken(sequence: Sequence, token: number, now: number): boolean {
  if (sequence.firstTokenNs === 0) sequence.firstTokenNs = now;
  sequence.lastTokenNs = now;
  sequence.settleDraft(token);
  if (sequence.endIds.includes(token)) return true;
  sequence.append(token);
  return false;
}

function afterToken(sequence: Sequence, token: number): FinishReason | undefined {
  const isStop = sequence.stopTexts?.push(token) === true || hasStopWord(sequence);
  if (isStop) return "stop";
  if (sequence.numTokens === sequence.maxLength) return "length";
  sequence.guide?.accept(token);
  return undefined;
}

function nothingToChoose({ numTokens }: Sequence): ServerError {
  return new ServerError(
    "internal",
    `no token can be chosen after ${numTokens} tokens: every logit is NaN or forbidden`,
  );
}

function hasStopWord(sequence: Sequence): boolean {
  for (const word of sequence.request.stopWords) {
    if (word.length <= sequence.numOutput && endsWith(sequence, word, word.length)) return true;
  }
  return false;
}
