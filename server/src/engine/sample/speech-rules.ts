/**
 * Rules on the logits of models of speech: tokens that never come, or not first, languages behind a bare start, and the order of
 * timestamps. Pure. Source: Radford et al. 2022 (Whisper), section 4.5; transformers, generation/logits_process.py,
 * `WhisperTimeStampLogitsProcessor` and `SuppressTokensAtBeginLogitsProcessor`.
 */
import type { LogitsPostProcessor } from "./logits-post-processor.ts";

export interface SpeechRules {
  readonly startId: number;
  readonly endId: number;
  /** Timestamps follow it: one for each 20 ms. */
  readonly noTimestampsId: number | undefined;
  /** Ids of languages; empty for models of one. */
  readonly languageIds: readonly number[];
  readonly suppressed: readonly number[];
  /** Not as the first token. */
  readonly suppressedFirst: readonly number[];
  /** Largest timestamp at the beginning, in steps; undefined: any. */
  readonly maxFirstTimestamp: number | undefined;
}

const NEVER = Number.NEGATIVE_INFINITY;

export function speechProcessor(rules: SpeechRules): LogitsPostProcessor {
  return (logits, tokens, promptLength) => {
    const output = tokens.subarray(promptLength);
    const isDetecting = rules.languageIds.length > 0 && tokens[promptLength - 1] === rules.startId;
    if (isDetecting && output.length === 0) {
      keepOnly(logits, rules.languageIds);
      return;
    }
    for (const id of rules.suppressed) logits[id] = NEVER;
    if (output.length === 0) for (const id of rules.suppressedFirst) logits[id] = NEVER;
    const { noTimestampsId } = rules;
    if (noTimestampsId === undefined || isDetecting || tokens.subarray(0, promptLength).includes(noTimestampsId))
      return;
    orderTimestamps(logits, output, rules, noTimestampsId + 1);
  };
}

function keepOnly(logits: Float32Array, ids: readonly number[]): void {
  const kept = ids.map((id) => logits[id] ?? NEVER);
  logits.fill(NEVER);
  for (const [i, id] of ids.entries()) logits[id] = kept[i] ?? NEVER;
}

/** Timestamps come in pairs and never fall; the output begins with one. `first` is the id of the first. */
function orderTimestamps(logits: Float32Array, output: Int32Array, rules: SpeechRules, first: number): void {
  const { endId, maxFirstTimestamp } = rules;
  logits[first - 1] = NEVER;
  const isTimestamp = (back: number): boolean => (output.at(-back) ?? -1) >= first;
  const [isLast, isBefore] = [isTimestamp(1), output.length < 2 || isTimestamp(2)];
  if (isLast) logits.fill(NEVER, isBefore ? first : 0, isBefore ? logits.length : endId);
  const last = output.findLast((id) => id >= first);
  if (last !== undefined) logits.fill(NEVER, first, isLast && !isBefore ? last : last + 1);
  if (output.length === 0) {
    logits.fill(NEVER, 0, first);
    if (maxFirstTimestamp !== undefined) logits.fill(NEVER, first + maxFirstTimestamp + 1);
  }
  if (isLikelierTogether(logits, first)) logits.fill(NEVER, 0, first);
}

/** Whether all timestamps together are likelier than any other token. */
function isLikelierTogether(logits: Float32Array, first: number): boolean {
  const most = logits.subarray(first).reduce((largest, value) => Math.max(largest, value), NEVER);
  if (most === NEVER) return false;
  let sum = 0;
  for (let id = first; id < logits.length; id++) sum += Math.exp((logits[id] ?? NEVER) - most);
  const text = logits.subarray(0, first).reduce((largest, value) => Math.max(largest, value), NEVER);
  return most + Math.log(sum) > text;
}
