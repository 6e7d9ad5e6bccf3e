/**
 * Sleeps below the resolution of Node's timers: a thread waits on a futex (futex(2), Atomics.wait) and wakes the event
 * loop. That costs two thread switches instead of a spinning core. One thread per process, started on first use. The
 * overhead depends on the thread's core: some 45 us on the loop's own, 100 us on a halted virtual one. The latter costs
 * the loop another 50 us.
 */
import { Worker } from "node:worker_threads";

/** Int32 order counter, then a Float64 with the milliseconds to sleep. */
const SHARED_BYTES = 16;
/** Waits for an order, then for its time or the next order. As source text, so that no file has to be resolved. */
const THREAD = `
const { parentPort, workerData } = require("node:worker_threads");
const orders = new Int32Array(workerData, 0, 1);
const sleepMs = new Float64Array(workerData, 8, 1);
parentPort.postMessage("ready");
for (let seen = 0; ; ) {
  Atomics.wait(orders, 0, seen);
  do seen = Atomics.load(orders, 0);
  while (Atomics.wait(orders, 0, seen, sleepMs[0]) !== "timed-out");
  parentPort.postMessage("awake");
}
`;

/** Called at about the due time, early or late: the sleeper checks the clock itself. */
export type Sleeper = () => void;

export class ShortSleep {
  readonly #orders: Int32Array;
  readonly #sleepMs: Float64Array;
  readonly #worker: Worker;
  readonly #sleepers = new Map<Sleeper, number>();
  #isReady = false;
  /** Due time of the thread's current order; Infinity: none. */
  #orderedMs = Number.POSITIVE_INFINITY;

  constructor() {
    const shared = new SharedArrayBuffer(SHARED_BYTES);
    this.#orders = new Int32Array(shared, 0, 1);
    this.#sleepMs = new Float64Array(shared, 8, 1);
    this.#worker = new Worker(THREAD, { eval: true, workerData: shared, execArgv: [], stdout: false, stderr: false });
    this.#worker.on("message", (message) => (message === "ready" ? this.#ready() : this.#awake()));
    // On failure, sleepers fall back to waiting without the thread.
    this.#worker.on("error", () => this.#gone());
    this.#worker.unref();
  }

  /** False until the thread runs, and when it could not be started. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /** Calls `sleeper` at about `dueMs` of `performance.now()`. One pending time per sleeper. */
  wakeAt(dueMs: number, sleeper: Sleeper): void {
    if (this.#sleepers.size === 0) this.#worker.ref();
    this.#sleepers.set(sleeper, dueMs);
    if (dueMs < this.#orderedMs) this.#order(dueMs);
  }

  forget(sleeper: Sleeper): void {
    if (this.#sleepers.delete(sleeper) && this.#sleepers.size === 0) this.#worker.unref();
  }

  #order(dueMs: number): void {
    this.#orderedMs = dueMs;
    this.#sleepMs[0] = Math.max(0, dueMs - performance.now());
    Atomics.add(this.#orders, 0, 1);
    Atomics.notify(this.#orders, 0);
  }

  #ready(): void {
    this.#isReady = true;
  }

  /** Wakes the sleepers that are due; a superseded order wakes nobody. */
  #awake(): void {
    const orderedMs = this.#orderedMs;
    this.#orderedMs = Number.POSITIVE_INFINITY;
    const due = [...this.#sleepers].filter(([, dueMs]) => dueMs <= orderedMs);
    for (const [sleeper] of due) this.forget(sleeper);
    for (const [sleeper] of due) sleeper();
    const nextMs = Math.min(...this.#sleepers.values());
    if (nextMs < this.#orderedMs) this.#order(nextMs);
  }

  #gone(): void {
    this.#isReady = false;
    this.#awake();
  }
}
