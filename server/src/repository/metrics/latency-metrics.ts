/**
 * The summaries and the histogram of `--metrics-config`, read from the models at each scrape. Names and help texts:
 * Triton documentation, "Metrics", Latencies.
 */
import type { MetricFamily, MetricSample } from "../../observe/metrics.ts";
import type { LatencyObserver, SummaryName } from "../../scheduler/latency-observer.ts";
import type { ModelRegistry } from "../registry.ts";
import { labelsOf } from "./model-metrics.ts";

const SUMMARIES: readonly (readonly [name: string, help: string, summary: SummaryName])[] = [
  [
    "nv_inference_request_summary_us",
    "Summary of inference request duration in microseconds (includes cached requests)",
    "request",
  ],
  [
    "nv_inference_queue_summary_us",
    "Summary of inference queuing duration in microseconds (includes cached requests)",
    "queue",
  ],
  [
    "nv_inference_compute_input_summary_us",
    "Cumulative compute input duration in microseconds (does not include cached requests)",
    "compute_input",
  ],
  [
    "nv_inference_compute_infer_summary_us",
    "Cumulative compute inference duration in microseconds (does not include cached requests)",
    "compute_infer",
  ],
  [
    "nv_inference_compute_output_summary_us",
    "Cumulative inference compute output duration in microseconds (does not include cached requests)",
    "compute_output",
  ],
  ["nv_cache_hit_summary_per_model", "Summary of cache hit counts/durations per model, in microseconds.", "cache_hit"],
  [
    "nv_cache_miss_summary_per_model",
    "Summary of cache miss counts/durations per model, in microseconds.",
    "cache_miss",
  ],
];

export interface LatencyMetricsOptions {
  readonly summaries: boolean;
  readonly quantiles: readonly number[];
  readonly histograms: boolean;
}

export function latencyMetricFamilies(registry: ModelRegistry, options: LatencyMetricsOptions): MetricFamily[] {
  const summaries = options.summaries ? SUMMARIES.map((row) => summaryFamily(registry, row, options.quantiles)) : [];
  return options.histograms ? [...summaries, firstResponseFamily(registry)] : summaries;
}

/** Triton shows no summary of whole requests where a cache answers some of them. */
function summaryFamily(
  registry: ModelRegistry,
  [name, help, which]: (typeof SUMMARIES)[number],
  quantiles: readonly number[],
): MetricFamily {
  return {
    name,
    help,
    type: "summary",
    *collect(): Generator<MetricSample> {
      const nowMs = performance.now();
      for (const [labels, latencies] of observed(registry)) {
        const summary = latencies.summaries.get(which);
        if (summary === undefined || (which === "request" && latencies.summaries.has("cache_hit"))) continue;
        yield { suffix: "_count", labels, value: summary.count };
        yield { suffix: "_sum", labels, value: summary.sum };
        for (const q of quantiles)
          yield { labels: { ...labels, quantile: String(q) }, value: summary.quantile(q, nowMs) };
      }
    },
  };
}

function firstResponseFamily(registry: ModelRegistry): MetricFamily {
  return {
    name: "nv_inference_first_response_histogram_ms",
    help: "Duration from request to first response in milliseconds",
    type: "histogram",
    *collect(): Generator<MetricSample> {
      for (const [labels, latencies] of observed(registry)) {
        const { cumulative, sumMs, count } = latencies.firstResponses();
        yield { suffix: "_count", labels, value: count };
        yield { suffix: "_sum", labels, value: sumMs };
        for (const [bound, total] of cumulative) {
          const le = bound === Number.POSITIVE_INFINITY ? "+Inf" : String(bound);
          yield { suffix: "_bucket", labels: { ...labels, le }, value: total };
        }
      }
    },
  };
}

function* observed(registry: ModelRegistry): Generator<readonly [Record<string, string>, LatencyObserver]> {
  for (const model of registry.allReady()) {
    const { latencies } = model.statistics;
    if (latencies !== undefined) yield [labelsOf(model), latencies];
  }
}
