/** A scheduler that wraps another one with the response cache. Source: Triton documentation, "Response Cache". */
import type { Tensor } from "../../core/tensor.ts";
import type { ScheduledRequest } from "../scheduled-request.ts";
import type { Scheduler } from "../scheduler.ts";
import { cacheKey, type ResponseCache } from "./response-cache.ts";

export interface CachingOptions {
  readonly cache: ResponseCache;
  readonly version: string;
  /** Differs per load of the version; for an ensemble, per load of its models. */
  readonly generation: () => string;
  /** False when a request's parameters cannot change the answer. */
  readonly parametersMatter: boolean;
}

export class CachingScheduler implements Scheduler {
  readonly #inner: Scheduler;
  readonly #options: CachingOptions;
  #isStopping = false;

  constructor(inner: Scheduler, options: CachingOptions) {
    this.#inner = inner;
    this.#options = options;
  }

  get inFlight(): number {
    return this.#inner.inFlight;
  }

  enqueue(request: ScheduledRequest): void {
    if (this.#isStopping) {
      this.#inner.enqueue(request); // refuses it with the scheduler's error
      return;
    }
    const { cache, version, generation, parametersMatter } = this.#options;
    const startMs = performance.now();
    const key = cacheKey(request.request, { version, generation: generation(), parametersMatter });
    const outputs = cache.lookUp(key);
    const lookupMs = performance.now() - startMs;
    if (outputs !== undefined) {
      request.answerFromCache(outputs, lookupMs);
      return;
    }
    request.onOutputs = insertInto(cache, key, lookupMs);
    this.#inner.enqueue(request);
  }

  get resize(): Scheduler["resize"] {
    return this.#inner.resize?.bind(this.#inner);
  }

  drain(): Promise<void> {
    this.#isStopping = true;
    return this.#inner.drain();
  }
}

/** Stores the outputs after a miss; returns the total cache time in ms. */
export function insertInto(
  cache: { insert(key: string, outputs: readonly Tensor[]): void },
  key: string,
  lookupMs: number,
): (outputs: readonly Tensor[]) => number {
  return (outputs) => {
    const startMs = performance.now();
    cache.insert(key, outputs);
    return lookupMs + performance.now() - startMs;
  };
}
