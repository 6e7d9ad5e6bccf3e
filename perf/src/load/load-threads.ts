/** The threads of a load generator, as the main thread sees them. */
import { extname } from "node:path";
import { Worker } from "node:worker_threads";
import type { ArrivalSchedule } from "../plan/arrivals.ts";
import { type LoadCommand, type LoadReport, machineMs, type ThreadPlan } from "./load-messages.ts";

const PROGRAM: URL = new URL(`./load-thread${extname(import.meta.url)}`, import.meta.url);
/** All threads get their first command before the first arrival. */
const SCHEDULE_LEAD_MS = 100;

export class LoadThreads implements AsyncDisposable {
  readonly #workers: readonly Worker[];
  readonly #idle: boolean[];
  /** Resolves when every thread has loaded its program: a schedule must not start before. */
  readonly ready: Promise<void>;
  #isDisposed = false;

  /** `onReport` gets every report of every thread. `onFault`: a thread has ended. */
  constructor(
    plan: Omit<ThreadPlan, "index" | "count">,
    count: number,
    onReport: (report: LoadReport) => void,
    onFault: (error: Error) => void,
  ) {
    this.#idle = new Array<boolean>(count).fill(true);
    const reported = new Set<number>();
    const { promise, resolve } = withResolvers();
    this.ready = promise;
    this.#workers = Array.from({ length: count }, (_, index) => {
      const worker = new Worker(PROGRAM, { workerData: { ...plan, index, count } satisfies ThreadPlan });
      worker.on("message", (report: LoadReport) => {
        this.#idle[index] = report.isIdle;
        if (reported.size < count && reported.add(index).size === count) resolve();
        onReport(report);
      });
      worker.on("error", (error: unknown) => onFault(error instanceof Error ? error : new Error(String(error))));
      worker.on("exit", () => {
        if (!this.#isDisposed) onFault(new Error("a thread of the load generator has ended"));
      });
      return worker;
    });
  }

  /** As of the last reports. */
  get isIdle(): boolean {
    return this.#idle.every(Boolean);
  }

  /** A closed loop of so many clients, spread over the threads. */
  setConcurrency(clients: number): void {
    const count = this.#workers.length;
    this.#send((index) => ({ kind: "concurrency", clients: Math.floor((clients + count - 1 - index) / count) }));
  }

  /** An open loop. @returns its start, ms of the machine's clock */
  follow(schedule: ArrivalSchedule): number {
    const startMs = machineMs() + SCHEDULE_LEAD_MS;
    this.#send(() => ({ kind: "schedule", schedule, startMs }));
    return startMs;
  }

  pause(): void {
    this.#send(() => ({ kind: "pause" }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true;
    await Promise.all(this.#workers.map((worker) => worker.terminate()));
  }

  #send(commandOf: (index: number) => LoadCommand): void {
    for (const [index, worker] of this.#workers.entries()) {
      this.#idle[index] = false;
      worker.postMessage(commandOf(index));
    }
  }
}

function withResolvers(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
