/** Measures one row on one server: rate, latencies, and CPU time of the server per request. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Load, Tally } from "./load.ts";
import { cpuTimeUs } from "./process-cpu.ts";
import type { DrivenServer } from "./servers.ts";
import { isSteady } from "./steady.ts";

/** The measured figures, for any load generator. */
export interface Measured {
  readonly name: string;
  readonly protocol: "http" | "grpc";
  start(port: number, host?: string): Load;
}

export interface Sample {
  readonly requestsPerSecond: number;
  readonly p50Us: number;
  readonly p99Us: number;
  /** NaN: the process of the server is not known. */
  readonly cpuUs: number;
}

/** Length of a window, and the most that warming up may take. */
const WINDOW_MS = 400;
const MAX_WARM_UP_MS = 30_000;

export async function measure(row: Measured, server: DrivenServer, seconds: number): Promise<Sample> {
  const load = row.start(row.protocol === "http" ? server.httpPort : server.grpcPort, server.host);
  const { tally } = load;
  try {
    await warmUp(row.name, tally);
    tally.reset();
    const { pid } = server;
    const startCpuUs = pid === undefined ? Number.NaN : cpuTimeUs(pid);
    const startMs = performance.now();
    await sleep(seconds * 1000);
    const { completed } = tally;
    const cpuUs = pid === undefined ? Number.NaN : cpuTimeUs(pid) - startCpuUs;
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

/** Until the rate is steady. A row that never is is measured all the same, with a line that says so. */
async function warmUp(name: string, tally: Tally): Promise<void> {
  const rates: number[] = [];
  const startMs = performance.now();
  while (!isSteady(rates)) {
    tally.expectNoFailure();
    if (performance.now() - startMs > MAX_WARM_UP_MS) {
      console.error(
        `${name}: not steady after ${MAX_WARM_UP_MS / 1000} s: ${rates.slice(-4).map(Math.round).join(", ")} requests/s`,
      );
      return;
    }
    tally.reset();
    const windowMs = performance.now();
    await sleep(WINDOW_MS);
    rates.push((1000 * tally.completed) / (performance.now() - windowMs));
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
