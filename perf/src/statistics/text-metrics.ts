/**
 * Figures of a load on a language model, as GenAI-Perf and AIPerf define them: time to first token, inter-token latency
 * ((latency - TTFT) / (tokens - 1)), throughput, goodput. Pure.
 */
import { type Summary, summarize } from "./percentiles.ts";
import type { TextAnswer } from "./text-answer.ts";

/** One answer with its tokens counted. Times in ms. */
export interface TextRecord {
  readonly startMs: number;
  readonly endMs: number;
  readonly ttftMs: number;
  /** From the first to the second event with text; undefined: there is no second. */
  readonly secondTokenMs: number | undefined;
  readonly latencyMs: number;
  /** Mean time between tokens; undefined for fewer than two. */
  readonly interTokenMs: number | undefined;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** Names of `--goodput` and their figures. */
export const OBJECTIVES = {
  time_to_first_token: (record: TextRecord): number | undefined => record.ttftMs,
  inter_token_latency: (record: TextRecord): number | undefined => record.interTokenMs,
  request_latency: (record: TextRecord): number | undefined => record.latencyMs,
} as const;
export type ObjectiveName = keyof typeof OBJECTIVES;

export interface Objective {
  readonly name: ObjectiveName;
  readonly limitMs: number;
}

export interface TextMetrics {
  readonly numGood: number;
  readonly numFailed: number;
  readonly seconds: number;
  readonly requestsPerSecond: number;
  readonly outputTokensPerSecond: number;
  /** Requests a second that meet every objective; undefined: none was asked for. */
  readonly goodput: number | undefined;
  /** By name, in the unit that the name says. */
  readonly summaries: ReadonlyMap<string, Summary>;
}

const PERCENTILES = [1, 5, 10, 25, 50, 75, 90, 95, 99];

export function recordOf(answer: TextAnswer, inputTokens: number, outputTokens: number): TextRecord {
  const { startMs, textMs } = answer;
  const first = textMs[0] ?? Number.NaN;
  const last = textMs.at(-1) ?? first;
  const second = textMs[1];
  const latencyMs = last - startMs;
  const ttftMs = first - startMs;
  return {
    startMs,
    endMs: last,
    ttftMs,
    secondTokenMs: second === undefined ? undefined : second - first,
    latencyMs,
    interTokenMs: outputTokens < 2 || second === undefined ? undefined : (latencyMs - ttftMs) / (outputTokens - 1),
    inputTokens,
    outputTokens,
  };
}

export function textMetrics(
  records: readonly TextRecord[],
  numFailed: number,
  objectives: readonly Objective[],
): TextMetrics {
  const startMs = records.reduce((least, record) => Math.min(least, record.startMs), Number.POSITIVE_INFINITY);
  const endMs = records.reduce((most, record) => Math.max(most, record.endMs), Number.NEGATIVE_INFINITY);
  const seconds = (endMs - startMs) / 1000;
  const isGood = (record: TextRecord): boolean =>
    objectives.every(({ name, limitMs }) => (OBJECTIVES[name](record) ?? 0) <= limitMs);
  const of = (figure: (record: TextRecord) => number | undefined): Summary =>
    summarize(
      records.map(figure).filter((value) => value !== undefined),
      PERCENTILES,
    );
  const tokens = records.reduce((sum, { outputTokens }) => sum + outputTokens, 0);
  return {
    numGood: records.length,
    numFailed,
    seconds,
    requestsPerSecond: records.length / seconds,
    outputTokensPerSecond: tokens / seconds,
    goodput: objectives.length === 0 ? undefined : records.filter(isGood).length / seconds,
    summaries: new Map([
      ["time_to_first_token_ms", of(({ ttftMs }) => ttftMs)],
      ["time_to_second_token_ms", of(({ secondTokenMs }) => secondTokenMs)],
      ["request_latency_ms", of(({ latencyMs }) => latencyMs)],
      ["inter_token_latency_ms", of(({ interTokenMs }) => interTokenMs)],
      [
        "output_token_throughput_per_user",
        of(({ interTokenMs }) => (interTokenMs === undefined || interTokenMs === 0 ? undefined : 1000 / interTokenMs)),
      ],
      ["output_sequence_length", of(({ outputTokens }) => outputTokens)],
      ["input_sequence_length", of(({ inputTokens }) => inputTokens)],
    ]),
  };
}
