/** A load on one server: its threads, what they report, and what holds the generator itself back. */
import { setTimeout as sleep } from "node:timers/promises";
import { ToolError } from "@nereid/server/files/tool-error";
import { type KeptAnswer, machineMs, type ThreadPlan } from "../load/load-messages.ts";
import { LoadThreads } from "../load/load-threads.ts";
import type { ArrivalSchedule } from "../plan/arrivals.ts";
import { ExchangeLog, type WindowSamples } from "../statistics/exchange-log.ts";

/** How near the generator was to its own limit, since the last `limits()`. */
export interface GeneratorLimits {
  /** Mean over the threads. */
  readonly busyShare: number;
  /** The latest that an arrival of an open loop was sent after its time. */
  readonly maxLateMs: number;
  readonly numDropped: number;
  readonly numSent: number;
}

export type Load =
  | { readonly kind: "concurrency"; readonly clients: number }
  | { readonly kind: "schedule"; readonly schedule: ArrivalSchedule };

/** Threads report every 50 ms, so what ended in a window is known so long after it. */
const REPORT_DELAY_MS = 70;
const IDLE_POLL_MS = 20;

export class LoadGenerator implements AsyncDisposable {
  readonly #threads: LoadThreads;
  readonly #log = new ExchangeLog();
  readonly #abort = new AbortController();
  readonly answers: KeptAnswer[] = [];
  #failure: string | undefined;
  #busy: { sum: number; count: number } = { sum: 0, count: 0 };
  #maxLateMs = 0;
  #numDropped = 0;
  #numSent = 0;

  constructor(plan: Omit<ThreadPlan, "index" | "count">, numThreads: number) {
    this.#threads = new LoadThreads(
      plan,
      numThreads,
      (report) => {
        this.#log.add(report);
        this.answers.push(...report.answers);
        this.#failure ??= report.failure;
        this.#busy = { sum: this.#busy.sum + report.busyShare, count: this.#busy.count + 1 };
        this.#maxLateMs = Math.max(this.#maxLateMs, report.maxLateMs);
        this.#numDropped += report.numDropped;
        this.#numSent += report.numSent;
      },
      (error) => this.#abort.abort(error),
    );
  }

  /** Waits until the threads run. */
  async ready(): Promise<void> {
    const fault = new Promise<never>((_, reject) => {
      this.#abort.signal.addEventListener("abort", () => reject(this.#abort.signal.reason), { once: true });
    });
    await Promise.race([this.#threads.ready, fault]);
  }

  /** Exchanges that have ended, so far. */
  get total(): number {
    return this.#log.total;
  }

  /** The first failure since the start. */
  get failure(): string | undefined {
    return this.#failure;
  }

  /** @returns the time from which the load counts, ms of the machine's clock */
  apply(load: Load): number {
    if (load.kind === "schedule") return this.#threads.follow(load.schedule);
    this.#threads.setConcurrency(load.clients);
    return machineMs();
  }

  /** Waits until every request that was sent has been answered and none will follow. */
  async finish(signal: AbortSignal): Promise<void> {
    const either = AbortSignal.any([signal, this.#abort.signal]);
    await sleep(REPORT_DELAY_MS);
    while (!this.#threads.isIdle) await this.#wait(IDLE_POLL_MS, either);
    await sleep(REPORT_DELAY_MS);
  }

  /** No new requests, and waits for those under way. */
  async pause(signal: AbortSignal): Promise<void> {
    this.#threads.pause();
    await this.finish(signal);
  }

  /** Requests that end in the next `ms`, or until there are `minCount` of them. */
  async window(ms: number, minCount: number, signal: AbortSignal): Promise<WindowSamples> {
    const either = AbortSignal.any([signal, this.#abort.signal]);
    const startMs = machineMs();
    const before = this.#log.total;
    await this.#wait(ms, either);
    while (this.#log.total - before < minCount) await this.#wait(IDLE_POLL_MS, either);
    const endMs = machineMs();
    await this.#wait(REPORT_DELAY_MS, either);
    return this.#log.take(startMs, endMs);
  }

  limits(): GeneratorLimits {
    const limits = {
      busyShare: this.#busy.count === 0 ? 0 : this.#busy.sum / this.#busy.count,
      maxLateMs: this.#maxLateMs,
      numDropped: this.#numDropped,
      numSent: this.#numSent,
    };
    this.#busy = { sum: 0, count: 0 };
    this.#maxLateMs = 0;
    this.#numDropped = 0;
    this.#numSent = 0;
    return limits;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#threads[Symbol.asyncDispose]();
  }

  async #wait(ms: number, signal: AbortSignal): Promise<void> {
    try {
      await sleep(ms, undefined, { signal });
    } catch (error) {
      const reason: unknown = signal.reason;
      throw reason instanceof Error ? reason : new ToolError("Interrupted", { cause: error });
    }
  }
}
