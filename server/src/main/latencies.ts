/** Which latencies of a model are observed, by the server's options and the model's own. Part of the composition root. */
import type { ServerOptions } from "../config/flags/server-options.ts";
import type { ModelConfig } from "../core/model-config.ts";
import { LatencyObserver } from "../scheduler/latency-observer.ts";

/** Triton's bounds, in ms, for models that do not name their own. */
const FIRST_RESPONSE_BUCKETS_MS = [100, 500, 2000, 5000];

/** Undefined when neither summaries nor histograms are on, and no console shows them. */
export function createLatencies({ metrics, console }: ServerOptions, config: ModelConfig): LatencyObserver | undefined {
  const hasSummaries = metrics.summaryLatencies || console.isEnabled;
  if (!hasSummaries && !metrics.histogramLatencies) return undefined;
  const control = config.model_metrics?.metric_control.find(
    ({ metric_identifier }) => metric_identifier?.family === "nv_inference_first_response_histogram_ms",
  );
  const bucketsMs = control?.histogram_options?.buckets ?? FIRST_RESPONSE_BUCKETS_MS;
  return new LatencyObserver({
    summaries: hasSummaries,
    isCached: config.response_cache?.enable === true,
    firstResponseBucketsMs: metrics.histogramLatencies ? bucketsMs : [],
  });
}
