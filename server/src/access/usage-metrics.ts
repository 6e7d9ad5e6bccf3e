/** Use per key on the metrics page. */
import type { MetricFamily, MetricSample } from "../observe/metrics.ts";
import type { FinishedUse, KeyGate } from "./key-gate.ts";

interface Counts {
  readonly key: string;
  readonly model: string;
  /** By status class: "2xx", "4xx", "5xx". */
  readonly requests: Map<string, number>;
  prompt: number;
  cached: number;
  completion: number;
}

export class UsageMetrics {
  readonly #counts = new Map<string, Counts>();

  add(use: FinishedUse): void {
    const id = JSON.stringify([use.key, use.model]);
    let counts = this.#counts.get(id);
    if (counts === undefined) {
      counts = { key: use.key, model: use.model, requests: new Map(), prompt: 0, cached: 0, completion: 0 };
      this.#counts.set(id, counts);
    }
    const status = `${Math.floor(use.status / 100)}xx`;
    counts.requests.set(status, (counts.requests.get(status) ?? 0) + 1);
    counts.prompt += use.promptTokens;
    counts.cached += use.cachedTokens;
    counts.completion += use.completionTokens;
  }

  families(gate: KeyGate): readonly MetricFamily[] {
    return [
      {
        name: "nereid_key_requests_total",
        help: "Requests per API key and model, by class of status",
        type: "counter",
        collect: () => this.#requestSamples(),
      },
      {
        name: "nereid_key_tokens_total",
        help: "Tokens per API key and model: prompt, those of them found in the cache, completion",
        type: "counter",
        collect: () => this.#tokenSamples(),
      },
      {
        name: "nereid_key_open_requests",
        help: "Open requests per API key",
        type: "gauge",
        collect: () => openSamples(gate),
      },
    ];
  }

  *#requestSamples(): Generator<MetricSample, void> {
    for (const { key, model, requests } of this.#counts.values()) {
      for (const [status, value] of requests) yield { labels: { key, model, status }, value };
    }
  }

  *#tokenSamples(): Generator<MetricSample, void> {
    for (const { key, model, prompt, cached, completion } of this.#counts.values()) {
      yield { labels: { key, model, kind: "prompt" }, value: prompt };
      yield { labels: { key, model, kind: "cached" }, value: cached };
      yield { labels: { key, model, kind: "completion" }, value: completion };
    }
  }
}

function* openSamples(gate: KeyGate): Generator<MetricSample, void> {
  for (const { record, numOpen } of gate.accounts()) yield { labels: { key: record.name }, value: numOpen };
}
