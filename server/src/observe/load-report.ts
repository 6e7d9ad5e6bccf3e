/**
 * How loaded this server is, in the terms of the Open Request Cost Aggregation format, which balancers weigh servers by.
 * Reads the figures of language models from the metrics, as routers outside do. Knows no header.
 */
import { readFileSync } from "node:fs";
import { type CpuTimes, parseCpuTimes, parseMemInfo } from "./host-metrics.ts";
import type { MetricRegistry, MetricSample } from "./metrics.ts";
import { RequestRate } from "./request-rate.ts";

export interface LoadReport {
  /** Shares of the machine, 0 to 1. A balancer takes a CPU share of exactly 0 for no report, so it never is. */
  readonly cpuUtilization: number;
  readonly memoryUtilization: number;
  /** The scarcest thing of language models, above 0 and up to 1; undefined without such models. */
  readonly applicationUtilization: number | undefined;
  readonly requestsPerSecond: number;
  readonly errorsPerSecond: number;
  readonly named: ReadonlyMap<string, number>;
}

/**
 * What an idle language model reports. Balancers take 0 for no report and go by the CPU, which says nothing of such models; and
 * among servers with less to do than this, who has less is chance.
 */
const MIN_UTILIZATION = 0.05;
/** A report costs two small files; in this time the machine hardly changes. */
const MACHINE_AGE_MS = 500;

export class LoadMeter {
  readonly #metrics: MetricRegistry;
  readonly #rate: RequestRate;
  readonly #readProc: (name: string) => string;
  #cpu: CpuTimes = { total: 0, idle: 0 };
  #machine = { cpu: 0, memory: 0 };
  #machineMs = Number.NEGATIVE_INFINITY;

  constructor(metrics: MetricRegistry, readProc: (name: string) => string = procFile) {
    this.#metrics = metrics;
    this.#readProc = readProc;
    this.#rate = new RequestRate(performance.now());
  }

  /** An inference request was answered. */
  count(isError: boolean): void {
    this.#rate.count(performance.now(), isError);
  }

  report(): LoadReport {
    const nowMs = performance.now();
    if (nowMs - this.#machineMs >= MACHINE_AGE_MS) this.#readMachine(nowMs);
    const models = llmLoad(this.#metrics);
    return {
      cpuUtilization: this.#machine.cpu,
      memoryUtilization: this.#machine.memory,
      applicationUtilization: models?.utilization,
      ...this.#rate.rates(nowMs),
      named: models?.named ?? new Map(),
    };
  }

  #readMachine(nowMs: number): void {
    this.#machineMs = nowMs;
    try {
      const cpu = parseCpuTimes(this.#readProc("stat"));
      const memory = parseMemInfo(this.#readProc("meminfo"));
      const share = cpuShare(this.#cpu, cpu);
      if (share !== undefined) {
        this.#machine.cpu = share;
        this.#cpu = cpu;
      }
      const totalBytes = memory.get("MemTotal") ?? 0;
      this.#machine.memory = totalBytes === 0 ? 0 : 1 - (memory.get("MemAvailable") ?? 0) / totalBytes;
    } catch {
      this.#machine = { cpu: 0, memory: 0 }; // not Linux: a balancer sees that nothing is known
    }
  }
}

/** Undefined when no tick has passed. One busy tick at least: the server has just answered. */
export function cpuShare(last: CpuTimes, now: CpuTimes): number | undefined {
  const total = now.total - last.total;
  if (total <= 0) return undefined;
  return Math.max(total - (now.idle - last.idle), 1) / total;
}

interface LlmLoad {
  readonly utilization: number;
  readonly named: ReadonlyMap<string, number>;
}

/** Undefined when no language model is served, or none has said yet what it has. */
export function llmLoad(metrics: MetricRegistry): LlmLoad | undefined {
  const blocks = byModel(metrics.samples("nv_trt_llm_kv_cache_block_metrics"), "kv_cache_block_type");
  let [used, max, tokens] = [0, 0, 0];
  for (const values of blocks.values()) {
    used += values.get("used") ?? 0;
    max += values.get("max") ?? 0;
    tokens += (values.get("max") ?? 0) * (values.get("tokens_per") ?? 0);
  }
  if (max === 0) return undefined;
  let slotUse = 0;
  for (const values of byModel(metrics.samples("nv_trt_llm_request_metrics"), "request_type").values()) {
    const slots = values.get("max") ?? 0;
    if (slots > 0) slotUse = Math.max(slotUse, ((values.get("scheduled") ?? 0) + (values.get("waiting") ?? 0)) / slots);
  }
  const kvUse = used / max;
  const named = new Map([
    ["kv_cache_utilization", kvUse],
    ["max_token_capacity", tokens],
  ]);
  return { utilization: Math.min(1, Math.max(MIN_UTILIZATION, kvUse, slotUse)), named };
}

/** The values of a family by the label `kind`, for each model and version. */
function byModel(samples: Iterable<MetricSample>, kind: string): ReadonlyMap<string, ReadonlyMap<string, number>> {
  const models = new Map<string, Map<string, number>>();
  for (const { labels, value } of samples) {
    const key = `${labels.model}:${labels.version}`;
    const values = models.get(key) ?? new Map<string, number>();
    models.set(key, values);
    values.set(labels[kind] ?? "", value);
  }
  return models;
}

function procFile(name: string): string {
  return readFileSync(`/proc/${name}`, "utf8");
}
