/**
 * Tells which of two measurements is better: weighted objectives within constraints (Model Analyzer, "Config Options":
 * objectives, constraints). Pure.
 */
import { meanInterval, shareLowerBound } from "../statistics/interval.ts";
import { percentileOf } from "../statistics/percentiles.ts";

export const METRICS = [
  "perf_throughput",
  "perf_latency_avg",
  "perf_latency_p90",
  "perf_latency_p95",
  "perf_latency_p99",
] as const;
export type MetricName = (typeof METRICS)[number];

export interface Objective {
  readonly metric: MetricName;
  readonly weight: number;
}

/** Latencies in ms, throughput in inferences a second. */
export type Constraint =
  | { readonly metric: "perf_throughput"; readonly min: number }
  | { readonly metric: Exclude<MetricName, "perf_throughput">; readonly max: number };

export interface Goal {
  readonly objectives: readonly Objective[];
  readonly constraints: readonly Constraint[];
}

/** Measurements of one configuration under one load. */
export interface PointSamples {
  /** Clients of the closed loop. */
  readonly load: number;
  readonly batchSize: number;
  /** Latencies in ms, in consecutive groups: their means are nearly independent of each other. */
  readonly groups: readonly (readonly number[])[];
  readonly numFailed: number;
}

export type Metrics = Readonly<Record<MetricName, number>>;

/**
 * `met` and `violated` are about the constraints. `open`: the estimate violates them, but chance may explain it. `failed`:
 * requests failed, or the configuration did not load.
 */
export type Standing = "met" | "open" | "violated" | "failed";

export interface Judgement {
  /** Logarithmic: a difference of 0.05 is about 5 % of the objective. */
  readonly score: number;
  /** Half of the 95 % interval of the score. */
  readonly half: number;
  readonly standing: Standing;
  readonly metrics: Metrics;
}

const PERCENTILES = { perf_latency_p90: 90, perf_latency_p95: 95, perf_latency_p99: 99 } as const;
/** Share of failed requests that a configuration may have. */
const MAX_FAILED_SHARE = 0.01;
/** A violation is certain from three standard deviations on: a wrong rejection costs the best configuration. */
const SURE_Z = 3;

export function judge(samples: PointSamples, { objectives, constraints }: Goal): Judgement {
  const all = samples.groups.flat();
  const metrics = metricsOf(all, samples);
  const scores = samples.groups.map((group) => scoreOf(metricsOf(group, samples), objectives));
  const numAsked = all.length + samples.numFailed;
  const hasFailed = all.length === 0 || samples.numFailed / numAsked > MAX_FAILED_SHARE;
  const standings = constraints.map((constraint) => standingOf(constraint, metrics, all, samples));
  const standing = hasFailed
    ? "failed"
    : standings.includes("violated")
      ? "violated"
      : standings.includes("open")
        ? "open"
        : "met";
  return { score: scoreOf(metrics, objectives), half: meanInterval(scores).half, standing, metrics };
}

/** A closed loop without pauses answers `load / mean latency` requests a second (Little 1961). */
function metricsOf(latenciesMs: readonly number[], { load, batchSize }: PointSamples): Metrics {
  const sorted = Float64Array.from(latenciesMs).sort();
  const mean = sorted.reduce((sum, each) => sum + each, 0) / sorted.length;
  return {
    perf_throughput: (load * batchSize * 1000) / mean,
    perf_latency_avg: mean,
    perf_latency_p90: percentileOf(sorted, 90),
    perf_latency_p95: percentileOf(sorted, 95),
    perf_latency_p99: percentileOf(sorted, 99),
  };
}

/** Weighted mean of the logarithms: gains are relative, as Model Analyzer compares them. */
function scoreOf(metrics: Metrics, objectives: readonly Objective[]): number {
  const total = objectives.reduce((sum, { weight }) => sum + weight, 0);
  const sum = objectives.reduce((sofar, { metric, weight }) => {
    const gain = Math.log(metrics[metric]);
    return sofar + weight * (metric === "perf_throughput" ? gain : -gain);
  }, 0);
  return sum / total;
}

function standingOf(
  constraint: Constraint,
  metrics: Metrics,
  latenciesMs: readonly number[],
  samples: PointSamples,
): Standing {
  const value = metrics[constraint.metric];
  if (constraint.metric === "perf_throughput") {
    if (value >= constraint.min) return "met";
    return isSurelyBelow(constraint.min, samples) ? "violated" : "open";
  }
  if (value <= constraint.max) return "met";
  const { max } = constraint;
  const isSure =
    constraint.metric === "perf_latency_avg"
      ? isMeanAbove(max, samples.groups)
      : isShareAbove(latenciesMs, max, 1 - PERCENTILES[constraint.metric] / 100, samples.load);
  return isSure ? "violated" : "open";
}

function isSurelyBelow(min: number, samples: PointSamples): boolean {
  const { mean, half } = meanInterval(samples.groups.map((group) => metricsOf(group, samples).perf_throughput));
  return mean + half < min;
}

function isMeanAbove(maxMs: number, groups: readonly (readonly number[])[]): boolean {
  const { mean, half } = meanInterval(groups.map((group) => group.reduce((sum, ms) => sum + ms, 0) / group.length));
  return mean - half > maxMs;
}

/** One stall delays all requests under way, so that only one in `load` of them is evidence of its own. */
function isShareAbove(latenciesMs: readonly number[], maxMs: number, share: number, load: number): boolean {
  const above = latenciesMs.filter((ms) => ms > maxMs).length;
  return shareLowerBound(above / load, latenciesMs.length / load, SURE_Z) > share;
}
