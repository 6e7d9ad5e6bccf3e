/** Measures one load on a V2 server: windows until three agree (perf_analyzer, "Measurement Modes"). */
import type { ProgressTask } from "@nereid/server/files/progress";
import { ToolError } from "@nereid/server/files/tool-error";
import { summarizeWindows, type WindowSamples, type WindowSummary } from "../statistics/exchange-log.ts";
import { isStable, STABLE_WINDOWS } from "../statistics/stability.ts";
import { addStatistics, type ServerStatistics, statisticsBetween } from "../target/server-api.ts";
import type { GeneratorLimits, Load, LoadGenerator } from "./load-generator.ts";

export interface MeasureOptions {
  readonly windowMs: number;
  /** 0: windows of time; else windows last until there are so many requests. */
  readonly windowRequests: number;
  readonly maxTrials: number;
  readonly stabilityPercentage: number;
  /** The percentile that must be steady; undefined: the mean. */
  readonly percentile: number | undefined;
}

export interface LevelResult {
  /** Concurrency, or requests a second. */
  readonly load: number;
  readonly kind: "concurrency" | "rate" | "intervals";
  /** Rows of each request. */
  readonly batchSize: number;
  readonly windows: readonly WindowSummary[];
  /** The last windows together. */
  readonly merged: WindowSummary;
  readonly isStable: boolean;
  /** Sums over the last windows; undefined: the server has no statistics. */
  readonly server: ServerStatistics | undefined;
  readonly limits: GeneratorLimits;
  /** A sample of the latencies of `merged`, us, for plots. */
  readonly latenciesUs: readonly number[];
}

export interface Measured {
  readonly generator: LoadGenerator;
  readStatistics(): Promise<ServerStatistics | undefined>;
}

const MAX_PLOTTED = 5000;

export async function measureLevel(
  { generator, readStatistics }: Measured,
  asked: {
    readonly load: Load;
    readonly value: number;
    readonly kind: LevelResult["kind"];
    readonly batchSize: number;
  },
  options: MeasureOptions,
  progress: ProgressTask,
  signal: AbortSignal,
): Promise<LevelResult> {
  const percentiles = [...new Set([50, 90, 95, 99, ...(options.percentile === undefined ? [] : [options.percentile])])];
  const windows: { samples: WindowSamples; summary: WindowSummary; server: ServerStatistics | undefined }[] = [];
  generator.apply(asked.load);
  generator.limits();
  let before = await readStatistics();
  let steady = false;
  while (windows.length < options.maxTrials && !steady) {
    const isByCount = options.windowRequests > 0;
    const samples = await generator.window(isByCount ? 0 : options.windowMs, options.windowRequests, signal);
    const after = await readStatistics();
    const server = before === undefined || after === undefined ? undefined : statisticsBetween(before, after);
    before = after;
    const summary = summarizeWindows([samples], percentiles);
    if (summary.count === 0 && generator.failure !== undefined) throw failed(generator.failure);
    windows.push({ samples, summary, server });
    progress.add(summary.count, `${Math.round(summary.requestsPerSecond * asked.batchSize)} infer/s`);
    const points = windows.map(({ summary: { requestsPerSecond, latencyUs } }) => ({
      perSecond: requestsPerSecond,
      latency: options.percentile === undefined ? latencyUs.mean : (latencyUs.percentiles.get(options.percentile) ?? 0),
    }));
    steady = isStable(points, options.stabilityPercentage);
  }
  const last = windows.slice(-STABLE_WINDOWS);
  const latencies = last.flatMap(({ samples: { latenciesMs } }) => latenciesMs.map((ms) => ms * 1000));
  const stride = Math.max(1, Math.ceil(latencies.length / MAX_PLOTTED));
  return {
    load: asked.value,
    kind: asked.kind,
    batchSize: asked.batchSize,
    windows: windows.map(({ summary }) => summary),
    merged: summarizeWindows(
      last.map(({ samples }) => samples),
      percentiles,
    ),
    isStable: steady,
    server: sumOf(last.map(({ server }) => server)),
    limits: generator.limits(),
    latenciesUs: latencies.filter((_, k) => k % stride === 0),
  };
}

function failed(failure: string): ToolError {
  return new ToolError(`every request failed: ${failure}`, { fix: "Check -m, --shape and --input-data" });
}

/** Undefined when one window has none. */
function sumOf(all: readonly (ServerStatistics | undefined)[]): ServerStatistics | undefined {
  let sum: ServerStatistics | undefined;
  for (const each of all) {
    if (each === undefined) return undefined;
    sum = sum === undefined ? each : addStatistics(sum, each);
  }
  return sum;
}
