/**
 * Sleeps shorter than a timer of Node can: a thread waits on a futex, which is exact to some microseconds, and wakes the event
 * loop. Costs two changes of thread in place of a core that turns in circles. One thread for the process, started when
 * first asked for. What a sleep takes depends on where the system puts the thread, and it stays there for seconds: on the loop's
 * own core some 45 us of the thread's time, on another, virtual and halted, 100, and 50 more of the loop's, which has to wake it.
 */
import { Worker } from "node:worker_threads";

/** Int32 counter of orders, then a Float64 with the milliseconds to sleep. */
const SHARED_BYTES = 16;
/** Waits for an order, then for its time to pass or for the next order. As text, so that no file has to be found. */
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

/** Called when its time has come, or somewhat earlier or later: it looks at the clock itself. */
export type Sleeper = () => void;

export class ShortSleep {
  readonly #orders: Int32Array;
  readonly #sleepMs: Float64Array;
  readonly #worker: Worker;
  readonly #sleepers = new Map<Sleeper, number>();
  #isReady = false;
  /** Due time of the order that the thread has; Infinity = it has none. */
  #orderedMs = Number.POSITIVE_INFINITY;

  constructor() {
    const shared = new SharedArrayBuffer(SHARED_BYTES);
    this.#orders = new Int32Array(shared, 0, 1);
    this.#sleepMs = new Float64Array(shared, 8, 1);
    this.#worker = new Worker(THREAD, { eval: true, workerData: shared, execArgv: [], stdout: false, stderr: false });
    this.#worker.on("message", (message) => (message === "ready" ? this.#ready() : this.#awake()));
    // Whoever waits then does so without the thread.
    this.#worker.on("error", () => this.#gone());
    this.#worker.unref();
  }

  /** False until the thread runs, and when it could not be started. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /** Calls `sleeper` at about `dueMs` of `performance.now()`. One time for each sleeper. */
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

  /** Wakes those whose time has come; an order that was overtaken wakes nobody. */
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
