/**
 * Starts asynchronous runs: on libuv's pool, or on the session's own intra-op threads, which are few and fixed. Knows
 * frames, not tensors.
 */
import { type Address, type Callback, callback } from "../ffi.ts";
import type { OrtApi, RunArguments, Status } from "./api.ts";
import type { RunFrame } from "./frame.ts";

export type StartRun = (session: Address, frame: RunFrame) => Promise<Status>;

const LONGEST_TIMER_MS = 2 ** 31 - 1;

export function startInPool(api: OrtApi): StartRun {
  return (session, frame) => {
    return new Promise<Status>((resolve, reject) => {
      api.Run.async(...runArguments(session, frame), (error, result) => {
        if (error === null) resolve(result);
        else reject(error);
      });
    });
  };
}

/**
 * For sessions with two or more intra-op threads. CUDA's provider keeps tens of megabytes of GPU memory per thread that
 * ever ran a session. libuv has two threads per core.
 */
export class OwnThreads {
  readonly #api: OrtApi;
  readonly #waiting = new Map<Address, (status: Status) => void>();
  readonly #ended: Callback;
  /** A run in progress keeps the process alive, as libuv's pool does. */
  readonly #hold = setInterval(() => undefined, LONGEST_TIMER_MS).unref();
  #lastId = 0n;

  constructor(api: OrtApi) {
    this.#api = api;
    this.#ended = callback(
      "void",
      ["void*", "void*", "size_t", "void*"],
      (id: Address, _outputs: Address, _count: number, status: Status) => this.#settle(id, status),
    );
  }

  readonly start: StartRun = (session, frame) => {
    this.#lastId++;
    const id = this.#lastId;
    return new Promise<Status>((resolve) => {
      this.#waiting.set(id, resolve);
      this.#hold.ref();
      const status = this.#api.RunAsync(...runArguments(session, frame), this.#ended.address, id);
      // Refused before it started: there will be no callback.
      if (status !== null) this.#settle(id, status);
    });
  };

  /** No run may be in progress. */
  close(): void {
    clearInterval(this.#hold);
    this.#ended.release();
  }

  #settle(id: Address, status: Status): void {
    const settle = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) this.#hold.unref();
    settle?.(status);
  }
}

function runArguments(session: Address, frame: RunFrame): RunArguments {
  const { inputNames, inputValues, inputCount, outputNames, outputCount, outputValues, runOptions } = frame;
  return [session, runOptions, inputNames, inputValues, inputCount, outputNames, outputCount, outputValues];
}
