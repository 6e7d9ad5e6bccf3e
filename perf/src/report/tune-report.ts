/** The result of a tuning run as text, JSON, CSV and a page. Pure. */
import { isPossible, ranked } from "../tune/race.ts";
import type { TunedPoint, TuneResult } from "../tune/run-tune.ts";
import { paretoFront } from "../tune/tuner.ts";
import type { ReportPage } from "./html-page.ts";

const SHOWN_ROWS = 20;

export interface TuneFacts {
  readonly command: string;
  readonly server: string;
  readonly date: string;
}

export function tuneText(result: TuneResult, configPath: string | undefined): string {
  const { model, best, points, numLoads, seconds, refused } = result;
  const effort = `${points.length} points, ${numLoads} loads, ${seconds.toFixed(1)} s`;
  const lines = [`Model ${model}: ${effort}${refused.length === 0 ? "" : `, ${refused.length} loads refused`}`];
  if (best === undefined) {
    lines.push(
      "  No configuration keeps the constraints.",
      ...ranked(points)
        .slice(0, 3)
        .map((point) => `  ${pointText(point)}`),
    );
    return lines.join("\n");
  }
  lines.push(`  Best: ${pointText(best)}`, "  Pareto front:");
  for (const point of frontOf(points)) lines.push(`    ${pointText(point)}`);
  if (configPath !== undefined) lines.push(`  Written: ${configPath}`);
  return lines.join("\n");
}

function pointText({ name, load, metrics }: TunedPoint): string {
  const { perf_throughput: rate, perf_latency_p99: p99 } = metrics;
  return `${name}, concurrency ${load}: ${rate.toFixed(1)} infer/s, p99 ${p99.toFixed(2)} ms`;
}

/** Points that keep the constraints, or may. */
export function frontOf(points: readonly TunedPoint[]): readonly TunedPoint[] {
  const possible = points.filter(({ standing }) => isPossible(standing));
  return paretoFront(
    possible.map((point) => ({ point, throughput: point.metrics.perf_throughput, p99Ms: point.p99Ms })),
  ).map(({ point }) => point);
}

export function tuneJson(result: TuneResult): Record<string, unknown> {
  const { model, mode, space, points, best, bestConfig, numLoads, seconds, refused } = result;
  return {
    model,
    mode,
    seconds,
    num_loads: numLoads,
    settings: Object.fromEntries(space.settings.map(({ name, values }) => [name, values])),
    concurrency: space.loads,
    best: best === undefined ? null : pointJson(result, best),
    best_config: bestConfig ?? null,
    pareto_front: frontOf(points).map((point) => pointJson(result, point)),
    points: ranked(points).map((point) => pointJson(result, point)),
    refused,
  };
}

function pointJson({ space }: TuneResult, point: TunedPoint): Record<string, unknown> {
  const { variant, load, metrics, half, standing, units, numRequests, numFailed } = point;
  const settings = Object.fromEntries(
    space.settings.map(({ name, values }, k) => [name, values[variant[k] ?? 0] ?? null]),
  );
  return {
    settings,
    concurrency: load,
    ...metrics,
    relative_interval: Number.isFinite(half) ? half : null,
    standing,
    measured_units: units,
    request_count: numRequests,
    failed_count: numFailed,
  };
}

/** Columns of Model Analyzer's `metrics-model-inference.csv`, then one for each setting. */
export function tuneCsv(results: readonly TuneResult[], batchSize: number): string {
  const names = [...new Set(results.flatMap(({ space }) => space.settings.map(({ name }) => name)))];
  const head = [
    "Model",
    "Batch",
    "Concurrency",
    "Satisfies Constraints",
    "Throughput (infer/sec)",
    "Avg Latency (ms)",
    "p90 Latency (ms)",
    "p95 Latency (ms)",
    "p99 Latency (ms)",
    ...names,
  ];
  const rows = results.flatMap(({ model, space, points }) =>
    ranked(points).map(({ variant, load, metrics, standing }) => [
      model,
      String(batchSize),
      String(load),
      standing === "met" ? "Yes" : "No",
      ...Object.values(metrics).map((value) => (Number.isFinite(value) ? value.toFixed(3) : "")),
      ...names.map((name) => {
        const at = space.settings.findIndex((setting) => setting.name === name);
        const value = at < 0 ? undefined : space.settings[at]?.values[variant[at] ?? 0];
        return value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
      }),
    ]),
  );
  return [head, ...rows].map((row) => `${row.map(csvCell).join(",")}\n`).join("");
}

function csvCell(text: string): string {
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function tunePage(results: readonly TuneResult[], facts: TuneFacts, warnings: readonly string[]): ReportPage {
  return {
    title: `${results.map(({ model }) => model).join(", ")}: tuning`,
    facts: [...Object.entries(facts), ...results.flatMap(bestFacts)],
    warnings,
    tables: results.flatMap(({ model, points }) => [
      { title: `${model}: Pareto front`, head: HEAD, rows: frontOf(points).map(rowOf) },
      { title: `${model}: best points`, head: HEAD, rows: ranked(points).slice(0, SHOWN_ROWS).map(rowOf) },
    ]),
    plots: results.map(({ model, points }) => ({
      title: `${model}: throughput over latency`,
      xLabel: "p99 latency, ms",
      yLabel: "infer/s",
      series: [
        { name: "Pareto front", points: frontOf(points).map(placeOf) },
        { name: "all points", points: points.map(placeOf), isScatter: true },
      ],
    })),
  };
}

const HEAD = ["configuration", "concurrency", "infer/s", "±", "mean ms", "p99 ms", "requests", "constraints"];

function rowOf({ name, load, metrics, half, numRequests, standing }: TunedPoint): string[] {
  const { perf_throughput: rate, perf_latency_avg: mean, perf_latency_p99: p99 } = metrics;
  const interval = Number.isFinite(half) ? `${(half * 100).toFixed(1)} %` : "";
  return [
    name,
    String(load),
    rate.toFixed(1),
    interval,
    mean.toFixed(2),
    p99.toFixed(2),
    String(numRequests),
    standing,
  ];
}

function placeOf({ metrics }: TunedPoint): readonly [number, number] {
  return [metrics.perf_latency_p99, metrics.perf_throughput];
}

function bestFacts({ model, best, seconds, numLoads }: TuneResult): [string, string][] {
  return [
    [`${model}: best`, best === undefined ? "none keeps the constraints" : pointText(best)],
    [`${model}: effort`, `${numLoads} loads, ${seconds.toFixed(1)} s`],
  ];
}
