/**
 * Metric families of models, read from their statistics at each scrape. Names and help texts: Triton documentation,
 * "Metrics", Inference Request Metrics.
 */

import type { ModelStatistics } from "../../core/model-server.ts";
import type { FailureReason } from "../../core/server-error.ts";
import type { MetricFamily, MetricSample, MetricType } from "../../observe/metrics.ts";
import type { ModelVersion } from "../model-version.ts";
import type { ModelRegistry } from "../registry.ts";

const NS_PER_US = 1000;
const REASONS: readonly FailureReason[] = ["OTHER", "BACKEND", "CANCELED", "REJECTED"];

type Read = (model: ModelVersion, statistics: ModelStatistics) => number;

const us = (ns: number): number => Math.floor(ns / NS_PER_US);

/** Name, type, help, value; one series for each ready version. */
const FAMILIES: readonly (readonly [string, MetricType, string, Read])[] = [
  [
    "nv_inference_request_success",
    "counter",
    "Number of successful inference requests, all batch sizes",
    (_, s) => s.inference_stats.success.count,
  ],
  [
    "nv_inference_count",
    "counter",
    "Number of inferences performed (does not include cached requests)",
    (_, s) => s.inference_count,
  ],
  [
    "nv_inference_exec_count",
    "counter",
    "Number of model executions performed (does not include cached requests)",
    (_, s) => s.execution_count,
  ],
  [
    "nv_inference_request_duration_us",
    "counter",
    "Cumulative inference request duration in microseconds (includes cached requests)",
    (_, s) => us(s.inference_stats.success.ns),
  ],
  [
    "nv_inference_queue_duration_us",
    "counter",
    "Cumulative inference queuing duration in microseconds (includes cached requests)",
    (_, s) => us(s.inference_stats.queue.ns),
  ],
  [
    "nv_inference_compute_input_duration_us",
    "counter",
    "Cumulative compute input duration in microseconds (does not include cached requests)",
    (_, s) => us(s.inference_stats.compute_input.ns),
  ],
  [
    "nv_inference_compute_infer_duration_us",
    "counter",
    "Cumulative compute inference duration in microseconds (does not include cached requests)",
    (_, s) => us(s.inference_stats.compute_infer.ns),
  ],
  [
    "nv_inference_compute_output_duration_us",
    "counter",
    "Cumulative inference compute output duration in microseconds (does not include cached requests)",
    (_, s) => us(s.inference_stats.compute_output.ns),
  ],
  [
    "nv_inference_pending_request_count",
    "gauge",
    "Instantaneous number of pending requests awaiting execution per-model.",
    (model) => model.statistics.pending,
  ],
  ["nv_model_load_duration_secs", "gauge", "Model load time in seconds", (model) => model.loadSeconds],
];

/**
 * `isCounting` is --metrics-config counter_latencies: without it Triton has no counters of durations, and the other counters stay 0
 * (core, metric_model_reporter.cc, `IncrementCounter()`).
 */
export function modelMetricFamilies(registry: ModelRegistry, isCounting = true): MetricFamily[] {
  const shown = isCounting ? FAMILIES : FAMILIES.filter(([name]) => !name.endsWith("_duration_us"));
  const families = shown.map(
    ([name, type, help, read]): MetricFamily => ({
      name,
      type,
      help,
      *collect() {
        for (const model of registry.allReady()) {
          const statistics = model.statistics.snapshot(model.name, model.version);
          const value = isCounting || type === "gauge" ? read(model, statistics) : 0;
          yield { labels: labelsOf(model), value };
        }
      },
    }),
  );
  const failures: MetricFamily = {
    name: "nv_inference_request_failure",
    type: "counter",
    help: "Number of failed inference requests, all batch sizes",
    *collect(): Generator<MetricSample> {
      for (const model of registry.allReady()) {
        for (const reason of REASONS) {
          const labels = Object.entries({ ...labelsOf(model), reason }).sort(byName);
          yield { labels: Object.fromEntries(labels), value: isCounting ? model.statistics.failures[reason] : 0 };
        }
      }
    },
  };
  return [...families.slice(0, 1), failures, ...families.slice(1)];
}

/** Labels: the configuration's metric tags, name, namespace if present, and version. */
export function labelsOf(model: ModelVersion): Record<string, string> {
  const tags = Object.entries(model.config.metric_tags).map(([key, value]) => [`_${key}`, value] as const);
  const namespace = model.namespace === "" ? {} : { namespace: model.namespace };
  return { ...Object.fromEntries(tags), model: model.name, ...namespace, version: model.version };
}

/** As Triton orders labels. */
function byName([a]: readonly [string, string], [b]: readonly [string, string]): number {
  return a < b ? -1 : 1;
}
