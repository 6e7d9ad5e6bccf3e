/** The result of a replay as text, JSON and a page. Pure. */
import { summarize } from "../statistics/percentiles.ts";
import type { Outcome, ReplayedExchange } from "../traffic/run-replay.ts";
import type { ReportPage } from "./html-page.ts";

const SHOWN = 20;
const OUTCOMES: readonly Outcome[] = ["same", "different", "failed", "skipped"];

export function replayText(results: readonly ReplayedExchange[]): string {
  const troubled = results.filter(({ outcome }) => outcome !== "same");
  const lines = troubled.slice(0, SHOWN).flatMap(linesOf);
  if (troubled.length > SHOWN) lines.push(`… and ${troubled.length - SHOWN} more; --report-json has all`);
  const { recorded, replayed } = latencies(results);
  lines.push(
    OUTCOMES.map((outcome) => `${countOf(results, outcome)} ${outcome}`).join(", "),
    `p50 latency: recorded ${recorded.toFixed(2)} ms, now ${replayed.toFixed(2)} ms`,
  );
  return lines.join("\n");
}

function linesOf({ number, path, outcome, differences, reason }: ReplayedExchange): string[] {
  const head = `${outcome}: request ${number} ${path}`;
  if (reason !== undefined) return [`${head}: ${reason}`];
  return [head, ...differences.map(({ at, expected, got }) => `  ${at}: expected ${expected}, got ${got}`)];
}

export function countOf(results: readonly ReplayedExchange[], outcome: Outcome): number {
  return results.filter((each) => each.outcome === outcome).length;
}

function latencies(results: readonly ReplayedExchange[]): { readonly recorded: number; readonly replayed: number } {
  const sent = results.filter(({ replayedMs }) => replayedMs !== undefined);
  const median = (values: readonly number[]): number => summarize(values, [50]).percentiles.get(50) ?? Number.NaN;
  return {
    recorded: median(sent.map(({ recordedMs }) => recordedMs)),
    replayed: median(sent.map(({ replayedMs }) => replayedMs ?? 0)),
  };
}

export function replayJson(results: readonly ReplayedExchange[]): Record<string, unknown> {
  return {
    counts: Object.fromEntries(OUTCOMES.map((outcome) => [outcome, countOf(results, outcome)])),
    results: results.map(({ number, protocol, path, outcome, differences, reason, recordedMs, replayedMs }) => ({
      number,
      protocol,
      path,
      outcome,
      differences,
      reason: reason ?? null,
      recorded_ms: recordedMs,
      replayed_ms: replayedMs ?? null,
    })),
  };
}

export function replayPage(results: readonly ReplayedExchange[], facts: Readonly<Record<string, string>>): ReportPage {
  const rows = results.flatMap(({ number, path, outcome, differences, reason }) =>
    reason === undefined
      ? differences.map(({ at, expected, got }) => [String(number), path, at, expected, got])
      : [[String(number), path, outcome, "", reason]],
  );
  return {
    title: "Replayed traffic",
    facts: [
      ...Object.entries(facts),
      ...OUTCOMES.map((outcome): [string, string] => [outcome, String(countOf(results, outcome))]),
    ],
    warnings: [],
    tables: [{ title: "Differences", head: ["request", "path", "where", "expected", "got"], rows }],
    plots: [
      {
        title: "Latency",
        xLabel: "recorded, ms",
        yLabel: "now, ms",
        series: [
          {
            name: "requests",
            points: results.map(({ recordedMs, replayedMs }) => [recordedMs, replayedMs ?? Number.NaN]),
            isScatter: true,
          },
        ],
      },
    ],
  };
}
