/** The result of a load on a V2 server as JSON and as a page. Pure. */
import type { LevelResult } from "../run/measure-level.ts";
import { distribution, type ReportPage } from "./html-page.ts";
import { breakdownOf, inferencesPerSecond, loadName } from "./infer-text.ts";

export interface RunFacts {
  readonly command: string;
  readonly url: string;
  readonly model: string;
  readonly date: string;
}

export function levelJson(result: LevelResult): Record<string, unknown> {
  const { load, kind, merged, isStable, server, limits, windows } = result;
  const { latencyUs, count, numFailed } = merged;
  return {
    [kind === "concurrency" ? "concurrency" : kind === "rate" ? "request_rate" : "intervals"]: load,
    inferences_per_second: inferencesPerSecond(result),
    request_count: count,
    failed_count: numFailed,
    is_stable: isStable,
    num_windows: windows.length,
    latency_us: {
      avg: latencyUs.mean,
      std: latencyUs.deviation,
      min: latencyUs.min,
      max: latencyUs.max,
      ...Object.fromEntries([...latencyUs.percentiles].map(([each, value]) => [`p${each}`, value])),
    },
    server: server === undefined ? null : { ...breakdownOf(server), execution_count: server.executionCount },
    generator: { busy_share: limits.busyShare, max_late_ms: limits.maxLateMs, dropped: limits.numDropped },
  };
}

export function inferPage(results: readonly LevelResult[], facts: RunFacts, warnings: readonly string[]): ReportPage {
  const [first] = results;
  const xLabel = first === undefined ? "" : loadName(first).toLowerCase();
  const sorted = [...results].sort((a, b) => a.load - b.load);
  const points = (y: (result: LevelResult) => number | undefined): (readonly [number, number])[] =>
    sorted.map((result) => [result.load, y(result) ?? Number.NaN]);
  return {
    title: `${facts.model}: load test`,
    facts: Object.entries(facts),
    warnings,
    tables: [levelTable(sorted, xLabel)],
    plots: [
      {
        title: "Throughput",
        xLabel,
        yLabel: "infer/s",
        series: [{ name: "throughput", points: points(inferencesPerSecond) }],
      },
      {
        title: "Latency",
        xLabel,
        yLabel: "us",
        series: [50, 95, 99].map((each) => ({
          name: `p${each}`,
          points: points(({ merged }) => merged.latencyUs.percentiles.get(each)),
        })),
      },
      {
        title: "Latency over throughput",
        xLabel: "infer/s",
        yLabel: "us",
        series: [
          { name: "mean", points: sorted.map((result) => [inferencesPerSecond(result), result.merged.latencyUs.mean]) },
        ],
      },
      {
        title: "Distribution of latency",
        xLabel: "us",
        yLabel: "% of requests",
        series: sorted.slice(-5).map((result) => ({
          name: `${xLabel} ${result.load}`,
          points: distribution(result.latenciesUs),
        })),
      },
      {
        title: "Windows",
        xLabel: "window",
        yLabel: "infer/s",
        series: sorted.slice(-5).map(({ load, windows, batchSize }) => ({
          name: `${xLabel} ${load}`,
          points: windows.map(({ requestsPerSecond }, k) => [k + 1, requestsPerSecond * batchSize]),
        })),
      },
    ],
  };
}

function levelTable(results: readonly LevelResult[], load: string): ReportPage["tables"][number] {
  const us = (value: number | undefined): string => (value === undefined ? "" : Math.round(value).toString());
  const head = [
    load,
    "infer/s",
    "mean us",
    "p50",
    "p90",
    "p95",
    "p99",
    "server us",
    "queue",
    "compute",
    "failed",
    "steady",
  ];
  const rows = results.map((result) => {
    const { merged, server, isStable } = result;
    const parts = server === undefined ? undefined : breakdownOf(server);
    const { percentiles, mean } = merged.latencyUs;
    return [
      String(result.load),
      inferencesPerSecond(result).toFixed(1),
      us(mean),
      ...[50, 90, 95, 99].map((each) => us(percentiles.get(each))),
      us(parts?.totalUs),
      us(parts?.queueUs),
      us(parts === undefined ? undefined : parts.computeInputUs + parts.computeInferUs + parts.computeOutputUs),
      String(merged.numFailed),
      isStable ? "yes" : "no",
    ];
  });
  return { title: "Results", head, rows };
}
