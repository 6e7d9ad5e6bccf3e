/** Measures one row on one server: rate, latencies, and CPU time of the server per request. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Load } from "./load.ts";
import { cpuTimeUs } from "./process-cpu.ts";
import type { BenchServer } from "./servers.ts";

/** The measured figures, for any load generator. */
export interface Measured {
  readonly name: string;
  readonly protocol: "http" | "grpc";
  start(port: number): Load;
}

export interface Sample {
  readonly requestsPerSecond: number;
  readonly p50Us: number;
  readonly p99Us: number;
  readonly cpuUs: number;
}

/** Share of the time that goes first, unmeasured: connections, compilers. */
const WARM_UP = 0.3;

export async function measure(row: Measured, server: BenchServer, seconds: number): Promise<Sample> {
  const load = row.start(row.protocol === "http" ? server.httpPort : server.grpcPort);
  const { tally } = load;
  try {
    await sleep(seconds * 1000 * WARM_UP);
    tally.reset();
    const startCpuUs = cpuTimeUs(server.pid);
    const startMs = performance.now();
    await sleep(seconds * 1000);
    const { completed } = tally;
    const cpuUs = cpuTimeUs(server.pid) - startCpuUs;
    const wallMs = performance.now() - startMs;
    tally.expectNoFailure();
    if (completed === 0) throw new Error(`${row.name}: no answer within ${seconds} s`);
    return {
      requestsPerSecond: (completed * 1000) / wallMs,
      p50Us: tally.percentileUs(0.5),
      p99Us: tally.percentileUs(0.99),
      cpuUs: cpuUs / completed,
    };
  } finally {
    load.stop();
  }
}

export interface Summary extends Sample {
  /** The least of all rounds; the fields of the sample are medians. */
  readonly minCpuUs: number;
}

export function summarize(samples: readonly Sample[]): Summary {
  const median = (key: keyof Sample): number => {
    const sorted = samples.map((sample) => sample[key]).sort((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
  };
  return {
    requestsPerSecond: median("requestsPerSecond"),
    p50Us: median("p50Us"),
    p99Us: median("p99Us"),
    cpuUs: median("cpuUs"),
    minCpuUs: Math.min(...samples.map(({ cpuUs }) => cpuUs)),
  };
}
