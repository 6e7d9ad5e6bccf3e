/** The metric families of an LLM model, by TensorRT-LLM's names. Reads the engines' figures when somebody scrapes. */
import type { EngineStats } from "../../engine/engine-stats.ts";
import type { MetricFamily } from "../../observe/metrics.ts";
import type { BackendMetrics } from "../backend.ts";
import type { TokenHistogram } from "./token-histogram.ts";

interface Series {
  readonly name: string;
  readonly help: string;
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
    values: { cpu: (s) => s.cpuBytes, gpu: () => 0, pinned: () => 0 },
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
    name: "nv_trt_llm_general_metrics",
    help: "General TRT LLM metrics",
    label: "general_type",
    values: { timestamp: (s) => s.timestampUs, iteration_counter: (s) => s.iteration },
  },
];

/** Registers the families of one model version; `engines` gives the figures of its instances, which are added up. */
export function registerLlmMetrics(
  metrics: BackendMetrics,
  model: { readonly name: string; readonly version: number },
  engines: () => Iterable<Readonly<EngineStats>>,
  lengths: { readonly input: TokenHistogram; readonly output: TokenHistogram },
): Disposable[] {
  const own = { model: model.name, version: String(model.version) };
  return [
    ...SERIES.map((series) => metrics.register(family(series, own, engines))),
    metrics.register({
      name: "nv_llm_input_token_len",
      help: "TRT LLM response metrics",
      type: "histogram",
      collect: () => lengths.input.samples({ response_metric_type: "total_input_tokens", ...own }),
    }),
    metrics.register({
      name: "nv_llm_output_token_len",
      help: "TRT LLM response metrics",
      type: "histogram",
      collect: () => lengths.output.samples({ response_metric_type: "total_output_tokens", ...own }),
    }),
  ];
}

function family(
  series: Series,
  own: Readonly<Record<string, string>>,
  engines: () => Iterable<Readonly<EngineStats>>,
): MetricFamily {
  return {
    name: series.name,
    help: series.help,
    type: "gauge",
    *collect() {
      const all = [...engines()];
      for (const [value, read] of Object.entries(series.values)) {
        const sum = all.reduce((total, stats) => total + read(stats), 0);
        yield { labels: { ...own, [series.label]: value }, value: sum };
      }
    },
  };
}
