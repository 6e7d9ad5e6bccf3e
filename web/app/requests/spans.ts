/** Which span of a waterfall explains its length. Pure. */
import type { ConsoleSpan, ConsoleTrace, SpanKind } from "@nereid/server/protocol/console/console-types";

export const SPAN_TEXTS: Readonly<Record<SpanKind, string>> = {
  request: "request",
  receive: "receive",
  queue: "queue and batch",
  input: "input",
  compute: "compute",
  output: "output",
  send: "send",
};

/** The longest part of a request, the whole requests left out: they contain the others. */
export function longestSpan(spans: readonly ConsoleSpan[]): ConsoleSpan | undefined {
  const parts = spans.filter(({ kind }) => kind !== "request");
  return parts.reduce<ConsoleSpan | undefined>(
    (longest, span) => (longest === undefined || lengthOf(span) > lengthOf(longest) ? span : longest),
    undefined,
  );
}

export function lengthOf({ startMs, endMs }: ConsoleSpan): number {
  return endMs - startMs;
}

export interface Gap {
  readonly fromMs: number;
  readonly lengthMs: number;
}

/** The longest silence between two responses of a stream; undefined with fewer than two. */
export function longestGap({ responsesMs }: Pick<ConsoleTrace, "responsesMs">): Gap | undefined {
  let longest: Gap | undefined;
  for (const [i, atMs] of responsesMs.entries()) {
    const before = responsesMs[i - 1];
    if (before === undefined) continue;
    if (longest === undefined || atMs - before > longest.lengthMs)
      longest = { fromMs: before, lengthMs: atMs - before };
  }
  return longest;
}

/** Round times for an axis from 0 to `totalMs`, at most five. */
export function ticksOf(totalMs: number): readonly number[] {
  if (!(totalMs > 0)) return [0];
  const rough = totalMs / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough) ?? rough;
  return Array.from({ length: Math.floor(totalMs / step) + 1 }, (_, i) => i * step);
}
