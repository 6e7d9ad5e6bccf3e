/** Like `CachingScheduler`, with an asynchronous cache: requests are queued after the cache reported a miss. */
import { ServerError } from "../../core/server-error.ts";
import { stopping } from "../in-flight.ts";
import type { ScheduledRequest } from "../scheduled-request.ts";
import type { Scheduler } from "../scheduler.ts";
import { insertInto } from "./caching-scheduler.ts";
import type { RemoteResponseCache } from "./remote-response-cache.ts";
import { cacheKey } from "./response-cache.ts";

export interface RemoteCachingOptions {
  readonly cache: RemoteResponseCache;
  readonly version: string;
  /** Equal for equal files on every server, because the cache is shared. */
  readonly generation: () => string;
  readonly parametersMatter: boolean;
}

export class RemoteCachingScheduler implements Scheduler {
  readonly #inner: Scheduler;
  readonly #options: RemoteCachingOptions;
  readonly #lookups = new Set<Promise<void>>();
  #isStopping = false;

  constructor(inner: Scheduler, options: RemoteCachingOptions) {
    this.#inner = inner;
    this.#options = options;
  }

  get inFlight(): number {
    return this.#inner.inFlight + this.#lookups.size;
  }

  enqueue(request: ScheduledRequest): void {
    if (this.#isStopping) {
      request.refused();
      throw stopping();
    }
    const lookup = this.#lookUp(request).finally(() => this.#lookups.delete(lookup));
    this.#lookups.add(lookup);
  }

  get resize(): Scheduler["resize"] {
    return this.#inner.resize?.bind(this.#inner);
  }

  /** Requests waiting for the cache were accepted, so they are queued before the scheduler stops. */
  async drain(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#lookups);
    await this.#inner.drain();
  }

  async #lookUp(request: ScheduledRequest): Promise<void> {
    const { cache, version, generation, parametersMatter } = this.#options;
    const startMs = performance.now();
    const key = cacheKey(request.request, { version, generation: generation(), parametersMatter });
    const outputs = await cache.lookUp(key);
    const lookupMs = performance.now() - startMs;
    if (outputs !== undefined && !request.request.signal.aborted) {
      request.answerFromCache(outputs, lookupMs);
      return;
    }
    request.onOutputs = insertInto(cache, key, lookupMs);
    try {
      this.#inner.enqueue(request);
    } catch (error) {
      request.stream.fail(ServerError.from(error)); // it was accepted, so the refusal becomes its response
    }
  }
}
