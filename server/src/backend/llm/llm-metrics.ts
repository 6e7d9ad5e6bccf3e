/**
 * Metric families of an LLM, under TensorRT-LLM's names and under vLLM's. Reads the engines' statistics at scrape time.
 */
import { type EngineStats, ZERO_STATS } from "../../engine/engine-stats.ts";
import type { Histogram } from "../../observe/histogram.ts";
import type { MetricFamily } from "../../observe/metrics.ts";
import type { BackendMetrics } from "../backend.ts";
import type { RequestFigures } from "./request-figures.ts";
import { vllmFamilies } from "./vllm-metrics.ts";

interface Series {
  readonly name: string;
  readonly help: string;
  /** A gauge where nothing else is said. */
  readonly type?: "counter";
  readonly label: string;
  readonly values: Readonly<Record<string, (stats: Readonly<EngineStats>) => number>>;
}

const SERIES: readonly Series[] = [
  {
    name: "nv_trt_llm_request_metrics",
    help: "TRT LLM request metrics",
    label: "request_type",
    values: {
      active: (s) => s.active,
      max: (s) => s.maxRequests,
      scheduled: (s) => s.scheduled,
      context: (s) => s.context,
      waiting: (s) => s.waiting,
    },
  },
  {
    name: "nv_trt_llm_runtime_memory_metrics",
    help: "TRT LLM runtime memory metrics",
    label: "memory_type",
    values: { cpu: (s) => s.cpuBytes, gpu: (s) => s.gpuBytes, pinned: () => 0 },
  },
  {
    name: "nv_trt_llm_kv_cache_block_metrics",
    help: "TRT LLM KV cache block metrics",
    label: "kv_cache_block_type",
    values: {
      max: (s) => s.kvBlocksMax,
      free: (s) => s.kvBlocksFree,
      used: (s) => s.kvBlocksUsed,
      tokens_per: (s) => s.tokensPerBlock,
      reused: (s) => s.kvBlocksReused,
      fraction: (s) => (s.kvBlocksMax === 0 ? 0 : s.kvBlocksUsed / s.kvBlocksMax),
    },
  },
  {
    name: "nv_trt_llm_inflight_batcher_metrics",
    help: "TRT LLM inflight_batcher-specific metrics",
    label: "inflight_batcher_specific_metric",
    values: {
      total_context_tokens: (s) => s.contextTokens,
      generation_requests: (s) => s.generating,
      micro_batch_id: () => 0,
      paused_requests: (s) => s.paused,
    },
  },
  {
    name: "nv_trt_llm_v1_metrics",
    help: "TRT LLM v1-specific metrics",
    label: "v1_specific_metric",
    values: {
      total_context_tokens: (s) => s.contextTokens,
      total_generation_tokens: (s) => s.generating,
      empty_generation_slots: (s) => s.maxRequests - s.scheduled,
    },
  },
  {
    name: "nereid_llm_draft_tokens",
    help: "Draft tokens of finished requests, proposed and accepted",
    label: "kind",
    type: "counter",
    values: { drafted: (s) => s.draftTokens, accepted: (s) => s.acceptedDraftTokens },
  },
  {
    name: "nereid_llm_kv_cache_moved_blocks",
    help: "Blocks copied from the KV cache to the host KV cache, and back",
    label: "kind",
    type: "counter",
    values: { offloaded: (s) => s.kvBlocksOffloaded, onboarded: (s) => s.kvBlocksOnboarded },
  },
  {
    name: "nv_trt_llm_general_metrics",
    help: "General TRT LLM metrics",
    label: "general_type",
    values: { timestamp: (s) => s.timestampUs, iteration_counter: (s) => s.iteration },
  },
  {
    name: "nv_trt_llm_disaggregated_serving_metrics",
    help: "TRT LLM disaggregated serving metrics",
    type: "counter",
    label: "disaggregated_serving_type",
    values: { kv_cache_transfer_ms: () => 0, request_count: () => 0 },
  },
];

/** Registers the families of one model version; `engines` gives the figures of its instances, which are added up. */
export function registerLlmMetrics(
  metrics: BackendMetrics,
  model: { readonly name: string; readonly version: number },
  engines: () => Iterable<Readonly<EngineStats>>,
  figures: RequestFigures,
  blocks: () => Iterable<string>,
): Disposable[] {
  const own = { model: model.name, version: String(model.version) };
  const lengths = { help: "TRT LLM response metrics", label: "response_metric_type" };
  const families = [
    ...SERIES.map((series) => family(series, own, engines)),
    histogram("nv_llm_input_token_len", lengths.help, figures.inputTokens, {
      [lengths.label]: "total_input_tokens",
      ...own,
    }),
    histogram("nv_llm_output_token_len", lengths.help, figures.outputTokens, {
      [lengths.label]: "total_output_tokens",
      ...own,
    }),
    histogram("nv_llm_time_to_first_token_seconds", "Time to the first token of a request", figures.firstTokenS, own),
    histogram("nv_llm_inter_token_latency_seconds", "Time between two tokens of a request", figures.nextTokenS, own),
    blockMaps(own, blocks),
    ...vllmFamilies({ ...own, model_name: model.name }, () => total(engines()), figures),
  ];
  return families.map((each) => metrics.register(each));
}

/** A series for each engine, whose label is the map of its blocks. */
function blockMaps(own: Readonly<Record<string, string>>, maps: () => Iterable<string>): MetricFamily {
  return {
    name: "nereid_llm_kv_cache_block_map",
    help: "Blocks of the KV cache: f free, c kept for prefixes, u in use, s shared",
    type: "gauge",
    isHidden: true,
    *collect() {
      for (const map of maps()) if (map !== "") yield { labels: { ...own, map }, value: map.length };
    },
  };
}

function histogram(
  name: string,
  help: string,
  values: Histogram,
  labels: Readonly<Record<string, string>>,
): MetricFamily {
  return { name, help, type: "histogram", collect: () => values.samples(labels) };
}

function family(
  series: Series,
  own: Readonly<Record<string, string>>,
  engines: () => Iterable<Readonly<EngineStats>>,
): MetricFamily {
  return {
    name: series.name,
    help: series.help,
    type: series.type ?? "gauge",
    *collect() {
      const stats = total(engines());
      for (const [value, read] of Object.entries(series.values)) {
        yield { labels: { ...own, [series.label]: value }, value: read(stats) };
      }
    },
  };
}

/** Statistics that do not add up over engines: all have the same value, or the latest counts. */
const NOT_SUMMED: ReadonlySet<string> = new Set(["tokensPerBlock", "timestampUs"] satisfies (keyof EngineStats)[]);
const FIELDS = Object.keys(ZERO_STATS) as readonly (keyof EngineStats)[];

function total(engines: Iterable<Readonly<EngineStats>>): EngineStats {
  const sum: EngineStats = { ...ZERO_STATS };
  for (const stats of engines) {
    for (const field of FIELDS) {
      sum[field] = NOT_SUMMED.has(field) ? Math.max(sum[field], stats[field]) : sum[field] + stats[field];
    }
  }
  return sum;
}
