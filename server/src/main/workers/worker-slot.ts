/**
 * One of the processes behind a supervisor: its start, its replacement without a gap, its end. Listening sockets belong to the
 * supervisor, which hands each connection to a process that takes it (Node.js, "Cluster", round robin).
 */
import cluster, { type Worker } from "node:cluster";
import { setTimeout as sleep } from "node:timers/promises";
import { type Backoff, backoffMs } from "../../core/backoff.ts";
import type { Logger } from "../../observe/log.ts";
import { parseFromWorker, type ToWorker } from "./worker-message.ts";

const RESTART_BACKOFF: Backoff = { firstMs: 500, maxMs: 30_000 };
/** A worker that does not answer a scrape is left out of the page. */
const SCRAPE_TIMEOUT_MS = 5000;

export class WorkerSlot {
  /** From 1. */
  readonly number: number;
  readonly #log: Logger;
  #serving: Worker | undefined;
  /** All that run, those that retire among them. */
  readonly #running = new Set<Worker>();
  #isStopping = false;
  #failures = 0;
  #nextScrape = 0;
  /** The worst exit code so far. */
  exitCode = 0;

  constructor(number: number, log: Logger) {
    this.number = number;
    this.#log = log;
  }

  get pid(): number | undefined {
    return this.#serving?.process.pid;
  }

  /** Resolves when the process serves. @throws Error when it ends before */
  async start(): Promise<void> {
    const worker = cluster.fork();
    this.#running.add(worker);
    worker.once("exit", (code) => this.#ended(worker, code));
    await untilReady(worker);
    this.#failures = 0;
    const before = this.#serving;
    this.#serving = worker;
    if (before !== undefined) tell(before, { kind: "retire" });
    if (this.#isStopping) tell(worker, { kind: "stop" });
  }

  /** Starts another process, then retires the one that serves; resolves when that one has ended. @throws Error: the old one serves on */
  async replace(): Promise<void> {
    const before = this.#serving;
    await this.start();
    if (before !== undefined && !before.isDead()) await new Promise((resolve) => before.once("exit", resolve));
  }

  /** Resolves when all processes have ended. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const worker of this.#running) tell(worker, { kind: "stop" });
    await Promise.all([...this.#running].map((worker) => new Promise((resolve) => worker.once("exit", resolve))));
  }

  hurry(): void {
    for (const worker of this.#running) tell(worker, { kind: "hurry" });
  }

  /** For a start that failed elsewhere. */
  kill(): void {
    this.#isStopping = true;
    for (const worker of this.#running) worker.process.kill("SIGKILL");
  }

  /** The metrics page; undefined while no process answers. */
  scrape(): Promise<string | undefined> {
    const worker = this.#serving;
    if (worker === undefined || !worker.isConnected()) return Promise.resolve(undefined);
    this.#nextScrape += 1;
    const id = this.#nextScrape;
    return new Promise((resolve) => {
      const onMessage = (value: unknown): void => {
        const message = parseFromWorker(value);
        if (message?.kind === "page" && message.id === id) end(message.text);
      };
      const end = (page: string | undefined): void => {
        clearTimeout(timer);
        worker.off("message", onMessage);
        resolve(page);
      };
      const timer = setTimeout(end, SCRAPE_TIMEOUT_MS, undefined);
      worker.on("message", onMessage);
      tell(worker, { kind: "scrape", id });
    });
  }

  #ended(worker: Worker, code: number | null): void {
    this.#running.delete(worker);
    const isFault = code !== 0;
    if (this.#isStopping && isFault) this.exitCode = 1;
    if (this.#serving !== worker) return;
    this.#serving = undefined;
    if (this.#isStopping) return;
    this.#failures += 1;
    this.#log.error("server", `worker ${this.number} (process ${worker.process.pid}) ended: exit code ${code}`);
    void this.#startAgain();
  }

  async #startAgain(): Promise<void> {
    while (!this.#isStopping && this.#serving === undefined) {
      await sleep(backoffMs(this.#failures, RESTART_BACKOFF), undefined, { ref: false });
      if (this.#isStopping || this.#serving !== undefined) return;
      try {
        await this.start();
        this.#log.info("server", `worker ${this.number} serves again: process ${this.pid}`);
      } catch (error) {
        this.#failures += 1;
        this.#log.error("server", String(error));
      }
    }
  }
}

function tell(worker: Worker, message: ToWorker): void {
  // A worker that ends meanwhile hears nothing, and its exit is watched.
  if (worker.isConnected()) worker.send(message, () => undefined);
}

function untilReady(worker: Worker): Promise<void> {
  return new Promise((resolve, reject) => {
    const onMessage = (value: unknown): void => {
      if (parseFromWorker(value)?.kind !== "ready") return;
      worker.off("message", onMessage);
      worker.off("exit", onExit);
      resolve();
    };
    const onExit = (code: number | null, signal: string | null): void => {
      reject(
        new Error(
          `process ${worker.process.pid} ended before it was ready: exit code ${code ?? signal}; its log says why`,
        ),
      );
    };
    worker.on("message", onMessage);
    worker.once("exit", onExit);
  });
}
