/** The exchanges of a load, and those that ended within a window of time. */
import { EXCHANGE_FIELDS, type LoadReport } from "../load/load-messages.ts";
import { type Summary, summarize } from "./percentiles.ts";

/** Requests that ended within a window; latencies in ms. */
export interface WindowSamples {
  readonly startMs: number;
  readonly endMs: number;
  readonly latenciesMs: readonly number[];
  readonly numFailed: number;
}

/** Rate and latencies of one window, or of several that are put together. Latencies in us. */
export interface WindowSummary {
  readonly seconds: number;
  readonly count: number;
  readonly numFailed: number;
  readonly requestsPerSecond: number;
  readonly latencyUs: Summary;
}

export class ExchangeLog {
  #chunks: Float64Array[] = [];
  /** Since the start, failures included. */
  total = 0;

  add({ exchanges }: LoadReport): void {
    if (exchanges.length === 0) return;
    this.#chunks.push(exchanges);
    this.total += exchanges.length / EXCHANGE_FIELDS;
  }

  /** Exchanges with an end in `[startMs, endMs)`. Forgets what ended before the window. */
  take(startMs: number, endMs: number): WindowSamples {
    const latenciesMs: number[] = [];
    let numFailed = 0;
    for (const chunk of this.#chunks) {
      for (let at = 0; at < chunk.length; at += EXCHANGE_FIELDS) {
        const ended = chunk[at + 1] ?? 0;
        if (ended < startMs || ended >= endMs) continue;
        if (chunk[at + 2] === 0) latenciesMs.push(ended - (chunk[at] ?? 0));
        else numFailed += 1;
      }
    }
    this.#chunks = this.#chunks.filter((chunk) => (chunk[chunk.length - EXCHANGE_FIELDS + 1] ?? 0) >= endMs);
    return { startMs, endMs, latenciesMs, numFailed };
  }
}

export function summarizeWindows(windows: readonly WindowSamples[], percentiles: readonly number[]): WindowSummary {
  const seconds = windows.reduce((sum, { startMs, endMs }) => sum + endMs - startMs, 0) / 1000;
  const latenciesUs = windows.flatMap(({ latenciesMs }) => latenciesMs.map((ms) => ms * 1000));
  return {
    seconds,
    count: latenciesUs.length,
    numFailed: windows.reduce((sum, { numFailed }) => sum + numFailed, 0),
    requestsPerSecond: latenciesUs.length / seconds,
    latencyUs: summarize(latenciesUs, percentiles),
  };
}
