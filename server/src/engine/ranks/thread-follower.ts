/** A rank on a thread of this process, as its leader sees it. */
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { RankTask } from "./follow.ts";
import type { Follower } from "./follower.ts";
import type { FromRank, RankThreadData, ToRank } from "./worker-messages.ts";

/** Error of its last step. */
const CLOSE_TIMEOUT_MS = 10_000;

export function startThread(task: RankTask, program: string | URL = threadProgram()): ThreadFollower {
  return new ThreadFollower(task, program);
}

export class ThreadFollower implements Follower {
  readonly rank: number;
  readonly opened: Promise<void>;
  readonly ready: Promise<void>;
  readonly failed: Promise<never>;
  readonly #worker: Worker;
  readonly #counter: Int32Array;
  readonly #exited: Promise<void>;
  #isClosing = false;

  constructor(task: RankTask, program: string | URL) {
    this.rank = task.rank;
    const signal = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
    this.#counter = new Int32Array(signal);
    const workerData: RankThreadData = { task, signal };
    const worker = new Worker(program, { workerData });
    this.#worker = worker;
    this.opened = this.#told("opened");
    this.ready = this.#told("ready");
    this.#exited = new Promise((resolve) => worker.once("exit", () => resolve()));
    this.failed = new Promise((_, reject) => {
      const fail = (why: string): void => reject(new Error(`rank ${task.rank}: ${why}`));
      worker.on("message", (message: FromRank) => {
        if (message.kind === "failed") fail(message.message);
      });
      worker.once("error", (error) => fail(error.message));
      worker.once("exit", (code) => {
        if (!this.#isClosing) fail(`its thread ended with code ${code}`);
      });
    });
    this.failed.catch(() => undefined);
  }

  join(ids: readonly Uint8Array[]): void {
    this.#post({ kind: "join", ids });
  }

  send(words: Int32Array): void {
    this.#post(words);
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    this.#post({ kind: "close" });
    const timer = setTimeout(() => void this.#worker.terminate(), CLOSE_TIMEOUT_MS);
    await this.#exited;
    clearTimeout(timer);
  }

  /** Messages beyond those of every rank. */
  onOther(listener: (message: unknown) => void): void {
    const known: readonly FromRank["kind"][] = ["opened", "ready", "failed"];
    this.#worker.on("message", (message: FromRank) => {
      if (!known.includes(message.kind)) listener(message);
    });
  }

  #post(message: ToRank): void {
    this.#worker.postMessage(message);
    Atomics.add(this.#counter, 0, 1);
    Atomics.notify(this.#counter, 0);
  }

  #told(kind: FromRank["kind"]): Promise<void> {
    return new Promise((resolve) => {
      this.#worker.on("message", (message: FromRank) => {
        if (message.kind === kind) resolve();
      });
    });
  }
}

/** Beside this file, in sources and in builds alike. */
function threadProgram(): string {
  return fileURLToPath(new URL(`./rank-worker${extname(import.meta.url)}`, import.meta.url));
}
