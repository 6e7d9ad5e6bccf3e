/**
 * Server load in the Open Request Cost Aggregation (ORCA) format, which load balancers use as weights. Reads the
 * metrics of language models. Knows no header.
 */
import { readFileSync } from "node:fs";
import { type CpuTimes, parseCpuTimes, parseMemInfo } from "./host-metrics.ts";
import type { MetricRegistry, MetricSample } from "./metrics.ts";
import { RequestRate } from "./request-rate.ts";

export interface LoadReport {
  /** Shares of the machine, 0 to 1. A CPU share of exactly 0 means "no report" to a balancer, so it is never sent. */
  readonly cpuUtilization: number;
  readonly memoryUtilization: number;
  /** The scarcest resource of language models, above 0 and up to 1; undefined without such models. */
  readonly applicationUtilization: number | undefined;
  readonly requestsPerSecond: number;
  readonly errorsPerSecond: number;
  readonly named: ReadonlyMap<string, number>;
}

/**
 * The report of an idle language model. Balancers treat 0 as no report and would use the CPU load, which is meaningless
 * for such models. Below this load the choice of server is random.
 */
const MIN_UTILIZATION = 0.05;
/** Maximum age in ms: a report reads two small files. */
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

  /** Counts an answered inference request. */
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
      this.#machine = { cpu: 0, memory: 0 }; // not Linux: the report says that nothing is known
    }
  }
}

/** Undefined when no tick has passed. At least one busy tick, because the server has just answered. */
export function cpuShare(last: CpuTimes, now: CpuTimes): number | undefined {
  const total = now.total - last.total;
  if (total <= 0) return undefined;
  return Math.max(total - (now.idle - last.idle), 1) / total;
}

interface LlmLoad {
  readonly utilization: number;
  readonly named: ReadonlyMap<string, number>;
}

/** Undefined when no language model is served, or none has reported yet. */
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

/** Values of a family by the label `kind`, per model and version. */
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
