/** The metric families of every server. Part of the composition root. */
import type { ServerOptions } from "../config/flags/server-options.ts";
import { cpuFamilies, pinnedMemoryFamilies } from "../observe/host-metrics.ts";
import type { MetricRegistry } from "../observe/metrics.ts";
import { cachedModelFamilies, cacheMetricFamilies } from "../repository/metrics/cache-metrics.ts";
import { latencyMetricFamilies } from "../repository/metrics/latency-metrics.ts";
import { modelMetricFamilies } from "../repository/metrics/model-metrics.ts";
import type { ModelRegistry } from "../repository/registry.ts";
import type { ResponseCaches } from "./open-caches.ts";

export function registerMetrics(
  options: ServerOptions,
  registry: ModelRegistry,
  metrics: MetricRegistry,
  { cache, remoteCache }: ResponseCaches,
): void {
  const isCounting = options.metrics.counterLatencies;
  for (const family of cacheMetricFamilies(cache, remoteCache)) metrics.register(family);
  if (isCounting) for (const family of cachedModelFamilies(registry)) metrics.register(family);
  const latencies = {
    summaries: options.metrics.summaryLatencies,
    quantiles: options.metrics.summaryQuantiles.map(({ quantile }) => quantile),
    histograms: options.metrics.histogramLatencies,
  };
  for (const family of latencyMetricFamilies(registry, latencies)) metrics.register(family);
  for (const family of modelMetricFamilies(registry, isCounting)) metrics.register(family);
  for (const family of pinnedMemoryFamilies(options.memory.pinnedPoolBytes)) metrics.register(family);
  if (options.metrics.cpu) for (const family of cpuFamilies()) metrics.register(family);
}
