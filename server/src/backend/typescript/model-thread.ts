/**
 * One worker thread with a model in it: start, messages, heartbeat, end. The end is reported once and with a cause, for
 * any behaviour of the model's code. Knows no requests.
 */
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { type TransferListItem, Worker } from "node:worker_threads";
import { LineSplitter } from "../../child-process/line-splitter.ts";
import { ServerError } from "../../core/server-error.ts";
import type { Logger } from "../../observe/log.ts";
import { BEGUN_BATCH, type FromThread, type ThreadData, type ToThread } from "./messages.ts";
import { errorOf } from "./model-error.ts";

/** The heartbeat is looked at this often within the time after which a thread counts as hung. */
const LOOKS = 4;

export interface ThreadLaunch {
  readonly data: Omit<ThreadData, "heartbeat" | "heartbeatMs">;
  readonly log: Logger;
  /** A thread that does nothing for this long is ended. */
  readonly hangTimeoutMs: number;
  /** How long loading and `initialize` may take together. */
  readonly startTimeoutMs: number;
  /** Undefined = Node's own limit. */
  readonly maxHeapMb: number | undefined;
}

export interface ThreadListener {
  /** From the first message of `initialize` on. */
  message(message: FromThread, thread: ModelThread): void;
  /** Called once, and only when the thread had started. */
  ended(cause: string, thread: ModelThread): void;
}

/** @throws ServerError with the model's own error, or why its thread did not start */
export function startThread(
  launch: ThreadLaunch,
  listener: ThreadListener,
  signal?: AbortSignal,
): Promise<ModelThread> {
  return new Promise((resolve, reject) => {
    let isStarted = false;
    const thread: ModelThread = new ModelThread(launch, {
      message(message) {
        if (message.type !== "initialized") {
          listener.message(message, thread);
          return;
        }
        settle();
        isStarted = message.error === undefined;
        if (message.error === undefined) {
          thread.watch();
          resolve(thread);
        } else {
          reject(errorOf(message.error));
          thread.kill("Its model could not be loaded");
        }
      },
      ended(cause) {
        settle();
        if (isStarted) listener.ended(cause, thread);
        else reject(new ServerError("internal", `Model thread '${launch.data.instanceName}' is not healthy. ${cause}`));
      },
    });
    const { startTimeoutMs } = launch;
    const late = `It was not initialized within ${startTimeoutMs} ms (start-timeout-seconds of the backend typescript)`;
    const timer = setTimeout(() => thread.kill(late), startTimeoutMs);
    const abort = (): void => thread.kill("The model is being unloaded");
    signal?.addEventListener("abort", abort);

    function settle(): void {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  });
}

export class ModelThread {
  readonly ended: Promise<void>;
  readonly #worker: Worker;
  readonly #launch: ThreadLaunch;
  readonly #listener: ThreadListener;
  readonly #heartbeat: Int32Array;
  #cause: string | undefined;
  #isOver = false;
  #markEnded: () => void = () => undefined;
  #watching: NodeJS.Timeout | undefined;

  constructor(launch: ThreadLaunch, listener: ThreadListener) {
    this.#launch = launch;
    this.#listener = listener;
    this.ended = new Promise((resolve) => {
      this.#markEnded = resolve;
    });
    const heartbeat = new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT);
    this.#heartbeat = new Int32Array(heartbeat);
    const workerData: ThreadData = { ...launch.data, heartbeat, heartbeatMs: launch.hangTimeoutMs / LOOKS / 2 };
    this.#worker = new Worker(threadProgram(), {
      workerData,
      stdout: true,
      stderr: true,
      ...(launch.maxHeapMb === undefined ? {} : { resourceLimits: { maxOldGenerationSizeMb: launch.maxHeapMb } }),
    });
    this.#worker.on("message", (message: FromThread) => this.#message(message));
    this.#worker.on("error", (error) => this.#finish(`It failed: ${describe(error)}`));
    this.#worker.on("exit", (code) => this.#finish(`It exited with code ${code}`));
    this.#collectOutput();
  }

  /** Whether the model has seen a batch; one that it has not goes to the next thread. */
  hasBegun(batchId: number): boolean {
    return Atomics.load(this.#heartbeat, BEGUN_BATCH) === (batchId | 0);
  }

  /** False when the thread has ended. */
  send(message: ToThread, transfer: readonly TransferListItem[] = []): boolean {
    if (this.#isOver) return false;
    this.#worker.postMessage(message, transfer);
    return true;
  }

  /** Ends the thread at once; an endless loop does not hold it up. */
  kill(cause: string): void {
    this.#finish(this.#cause ?? cause);
  }

  /** From now on a thread that stands still is ended. */
  watch(): void {
    const { hangTimeoutMs } = this.#launch;
    let last = -1;
    let still = 0;
    const timer = setInterval(() => {
      const beat = Atomics.load(this.#heartbeat, 0);
      still = beat === last ? still + 1 : 0;
      last = beat;
      if (still >= LOOKS) {
        this.kill(
          `It did not react for ${hangTimeoutMs} ms: its code never gave the event loop back (an endless loop?)`,
        );
      }
    }, hangTimeoutMs / LOOKS);
    timer.unref();
    this.#watching = timer;
  }

  #message(message: FromThread): void {
    // Requests in flight are dropped with the abandoned thread.
    if (!this.#isOver) this.#listener.message(message, this);
  }

  #finish(cause: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearInterval(this.#watching);
    void this.#worker.terminate();
    this.#listener.ended(cause, this);
    this.#markEnded();
  }

  #collectOutput(): void {
    const { log, data } = this.#launch;
    const out = new LineSplitter((line) => log.info("typescript", `${data.instanceName}: ${line}`));
    const err = new LineSplitter((line) => log.warn("typescript", `${data.instanceName}: ${line}`));
    this.#worker.stdout.on("data", (chunk: Buffer) => out.push(chunk)).on("end", () => out.end());
    this.#worker.stderr.on("data", (chunk: Buffer) => err.push(chunk)).on("end", () => err.end());
  }
}

/** Beside this file, in sources and in builds alike. */
function threadProgram(): string {
  return fileURLToPath(new URL(`./worker/model-worker${extname(import.meta.url)}`, import.meta.url));
}

function describe(error: unknown): string {
  const { code, stack } = error instanceof Error ? (error as NodeJS.ErrnoException) : {};
  if (code === "ERR_WORKER_OUT_OF_MEMORY") return "it ran out of memory (max-heap-mb of the backend typescript)";
  return stack ?? String(error);
}
