/**
 * Metric families of the response cache, in total and per model. Names: Triton documentation, "Metrics", Response Cache
 * Metrics.
 */
import type { DurationStatistic } from "../../core/model-server.ts";
import type { MetricFamily } from "../../observe/metrics.ts";
import type { RemoteCacheStatistics, RemoteResponseCache } from "../../scheduler/cache/remote-response-cache.ts";
import type { CacheStatistics, ResponseCache } from "../../scheduler/cache/response-cache.ts";
import type { ModelRegistry } from "../registry.ts";
import { labelsOf } from "./model-metrics.ts";

const NS_PER_US = 1000;

const WHOLE: readonly (readonly [name: string, help: string, read: (s: CacheStatistics) => number])[] = [
  ["nv_cache_util", "Cache utilization [0.0 - 1.0]", (s) => s.usedBytes / s.capacityBytes],
  ["nv_cache_num_entries", "Number of responses stored in response cache", (s) => s.numEntries],
  ["nv_cache_num_lookups", "Number of cache lookups in response cache", (s) => s.numLookups],
  ["nv_cache_num_hits", "Number of cache hits in response cache", (s) => s.numHits],
  ["nv_cache_num_misses", "Number of cache misses in response cache", (s) => s.numMisses],
  ["nv_cache_num_evictions", "Number of cache evictions in response cache", (s) => s.numEvictions],
  ["nv_cache_lookup_duration", "Total cache lookup duration (hit and miss), in microseconds", (s) => s.lookupUs],
  ["nv_cache_insertion_duration", "Total cache insertion duration, in microseconds", (s) => s.insertionUs],
];

type Side = "cache_hit" | "cache_miss";

const PER_MODEL: readonly (readonly [
  name: string,
  help: string,
  side: Side,
  read: (d: DurationStatistic) => number,
])[] = [
  ["nv_cache_num_hits_per_model", "Number of cache hits per model", "cache_hit", ({ count }) => count],
  ["nv_cache_num_misses_per_model", "Number of cache misses per model", "cache_miss", ({ count }) => count],
  [
    "nv_cache_hit_duration_per_model",
    "Total cache hit duration per model, in microseconds",
    "cache_hit",
    ({ ns }) => Math.floor(ns / NS_PER_US),
  ],
  [
    "nv_cache_miss_duration_per_model",
    "Total cache miss (insert+lookup) duration per model, in microseconds",
    "cache_miss",
    ({ ns }) => Math.floor(ns / NS_PER_US),
  ],
];

const REMOTE: readonly (readonly [name: string, help: string, read: (s: RemoteCacheStatistics) => number])[] = [
  ["nv_cache_num_lookups", "Number of cache lookups in response cache", (s) => s.numLookups],
  ["nv_cache_num_hits", "Number of cache hits in response cache", (s) => s.numHits],
  ["nv_cache_num_misses", "Number of cache misses in response cache", (s) => s.numLookups - s.numHits],
  ["nv_cache_lookup_duration", "Total cache lookup duration (hit and miss), in microseconds", (s) => s.lookupUs],
  ["nv_cache_insertion_duration", "Total cache insertion duration, in microseconds", (s) => s.insertionUs],
  [
    "nereid_cache_num_failures",
    "Number of lookups and insertions that the response cache did not do",
    (s) => s.numFailures,
  ],
];

/** Families of the configured cache; empty without one. */
export function cacheMetricFamilies(cache: ResponseCache | undefined, remote?: RemoteResponseCache): MetricFamily[] {
  if (cache !== undefined) return WHOLE.map((row) => gaugeOf(row, () => cache.statistics()));
  return remote === undefined ? [] : REMOTE.map((row) => gaugeOf(row, () => remote.statistics()));
}

function gaugeOf<Statistics>(
  [name, help, read]: readonly [name: string, help: string, read: (statistics: Statistics) => number],
  statistics: () => Statistics,
): MetricFamily {
  return { name, help, type: "gauge", collect: () => [{ labels: {}, value: read(statistics()) }] };
}

/**
 * Families of the models that ask for the cache. Triton decides by the configuration alone, so the series stay 0 where the server
 * has no cache (core, model.cc).
 */
export function cachedModelFamilies(registry: ModelRegistry): MetricFamily[] {
  return PER_MODEL.map(
    ([name, help, side, read]): MetricFamily => ({
      name,
      help,
      type: "counter",
      *collect() {
        for (const model of registry.allReady()) {
          if (model.config.response_cache?.enable !== true) continue;
          const { inference_stats } = model.statistics.snapshot(model.name, model.version);
          yield { labels: labelsOf(model), value: read(inference_stats[side]) };
        }
      },
    }),
  );
}
