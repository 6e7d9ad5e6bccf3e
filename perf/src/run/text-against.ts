/** Ratios of two servers of a language model that were measured in turns. Pure. */
import { pairedRatio, type Ratio } from "../statistics/ratio.ts";
import type { TextMetrics } from "../statistics/text-metrics.ts";
import { ratioLine } from "./against.ts";
import type { TextResult } from "./text-run.ts";

export type TextRatios = Readonly<Record<string, Ratio>>;

/** Each round has the result of the first and of the second server. Figures that a round lacks have no ratio. */
export function textRatios(rounds: readonly (readonly TextResult[])[]): TextRatios {
  const median = (name: string): ((metrics: TextMetrics) => number) => {
    return ({ summaries }) => summaries.get(name)?.percentiles.get(50) ?? Number.NaN;
  };
  const figures: Readonly<Record<string, (metrics: TextMetrics) => number>> = {
    "tokens/s": ({ outputTokensPerSecond }) => outputTokensPerSecond,
    "p50 TTFT": median("time_to_first_token_ms"),
    "p50 ITL": median("inter_token_latency_ms"),
    "p50 latency": median("request_latency_ms"),
  };
  const ratios: Record<string, Ratio> = {};
  for (const [name, figure] of Object.entries(figures)) {
    const pairs = rounds.map(([first, second]): [number, number] => [
      first === undefined ? Number.NaN : figure(first.metrics),
      second === undefined ? Number.NaN : figure(second.metrics),
    ]);
    if (pairs.every(([first, second]) => first > 0 && second > 0)) ratios[name] = pairedRatio(pairs);
  }
  return ratios;
}

export function textRatiosText(ratios: TextRatios, numRounds: number): string {
  const lines = Object.entries(ratios).map(([name, ratio]) => ratioLine(name, ratio));
  return [`second / first, ${numRounds} rounds`, ...lines].join("\n");
}
