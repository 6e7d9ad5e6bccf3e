/**
 * The figures of a language model by the names that vLLM gave them, which routers, autoscalers and dashboards read. The
 * values are those of the other families. Triton's vllm_backend has the label `model` where vLLM has `model_name`.
 */
import type { EngineStats } from "../../engine/engine-stats.ts";
import type { Histogram } from "../../observe/histogram.ts";
import type { MetricFamily, MetricSample, MetricType } from "../../observe/metrics.ts";
import type { RequestFigures } from "./request-figures.ts";

type Labels = Readonly<Record<string, string>>;

/** `stats` adds the engines of a model up. */
export function vllmFamilies(own: Labels, stats: () => Readonly<EngineStats>, figures: RequestFigures): MetricFamily[] {
  const one = (name: string, type: MetricType, help: string, read: () => number): MetricFamily => ({
    name: `vllm:${name}`,
    type,
    help,
    collect: () => [{ labels: own, value: read() }],
  });
  const histogram = (name: string, help: string, values: Histogram): MetricFamily => ({
    name: `vllm:${name}`,
    type: "histogram",
    help,
    collect: () => values.samples(own),
  });
  return [
    one("num_requests_running", "gauge", "Number of requests that the last step ran", () => stats().scheduled),
    one("num_requests_waiting", "gauge", "Number of requests that wait for a step", () => stats().waiting),
    one("kv_cache_usage_perc", "gauge", "Share of the KV cache in use; 1 means all", () => usedShare(stats())),
    {
      name: "vllm:cache_config_info",
      type: "gauge",
      help: "Size and number of the KV cache's blocks",
      collect: () => cacheInfo(own, stats()),
    },
    one("num_preemptions_total", "counter", "Number of sequences computed again", () => stats().preemptions),
    one("prompt_tokens_total", "counter", "Number of prompt tokens of ended requests", () => figures.promptTokens),
    one("generation_tokens_total", "counter", "Number of tokens generated", () => figures.generatedTokens),
    {
      name: "vllm:request_success_total",
      type: "counter",
      help: "Number of ended requests by the reason of their end",
      *collect() {
        for (const [reason, value] of Object.entries(figures.endings)) {
          yield { labels: { ...own, finished_reason: reason }, value };
        }
      },
    },
    histogram("time_to_first_token_seconds", "Time from a request's arrival to its first token", figures.firstTokenS),
    histogram("inter_token_latency_seconds", "Time between two tokens of a request", figures.nextTokenS),
    histogram("time_per_output_token_seconds", "Time between two tokens of a request", figures.nextTokenS),
    histogram("request_prompt_tokens", "Prompt tokens of a request", figures.inputTokens),
    histogram("request_generation_tokens", "Tokens generated for a request", figures.outputTokens),
    histogram("e2e_request_latency_seconds", "Time from a request's arrival to its end", figures.requestS),
    histogram("request_queue_time_seconds", "Time from a request's arrival to its first step", figures.queueS),
  ];
}

function usedShare({ kvBlocksMax, kvBlocksUsed }: Readonly<EngineStats>): number {
  return kvBlocksMax === 0 ? 0 : kvBlocksUsed / kvBlocksMax;
}

function cacheInfo(own: Labels, { tokensPerBlock, kvBlocksMax }: Readonly<EngineStats>): MetricSample[] {
  const labels = { ...own, block_size: String(tokensPerBlock), num_gpu_blocks: String(kvBlocksMax) };
  return [{ labels, value: 1 }];
}
