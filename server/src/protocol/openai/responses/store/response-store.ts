/**
 * Responses that are kept for later calls, in memory: bounded in number, bytes and age. Keys see their own alone, and a
 * key that keeps the most makes room first. Source: OpenAI's API reference, `store`.
 */
import { MAX_BACKGROUND_RESPONSES, MAX_STORED_RESPONSE_BYTES, MAX_STORED_RESPONSES } from "../../../../core/limits.ts";
import { ApiError } from "../../../api/api-error.ts";
import type { JsonObject } from "../../../api/schema.ts";
import { Shelf } from "./shelf.ts";
import type { StoredResponse } from "./stored-response.ts";

/** OpenAI keeps them for 30 days. Agents come back within hours, and this store ends with the process. */
const MAX_AGE_MS: number = 24 * 60 * 60 * 1000;

export class ResponseStore {
  readonly #shelves = new Map<string, Shelf>();
  readonly #running = new Set<StoredResponse>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number = Date.now) {
    this.#nowMs = nowMs;
  }

  get numResponses(): number {
    return this.#sum((shelf) => shelf.size);
  }

  get numBytes(): number {
    return this.#sum((shelf) => shelf.numBytes);
  }

  get numRunning(): number {
    return this.#running.size;
  }

  /** One that is larger than the store is not kept. @throws ApiError when too many run already */
  add(response: StoredResponse): void {
    if (response.isRunning) this.#expectFreeRun();
    this.#dropOld();
    if (response.numBytes > MAX_STORED_RESPONSE_BYTES) return;
    if (response.isRunning) this.#running.add(response);
    const shelf = this.#shelves.get(response.owner) ?? new Shelf();
    this.#shelves.set(response.owner, shelf);
    shelf.add(response, this.#nowMs());
    this.#shrink();
  }

  /** The response has grown, or it is over. False: there is no room for what it has become. */
  update(response: StoredResponse): boolean {
    if (!response.isRunning) this.#running.delete(response);
    this.#shelves.get(response.owner)?.update(response);
    return this.#shrink();
  }

  /** Undefined: unknown, too old, or of another key. */
  find(owner: string, id: string): StoredResponse | undefined {
    const shelf = this.#shelves.get(owner);
    const bornMs = shelf?.bornMs(id);
    if (bornMs === undefined || this.#isOld(bornMs)) return undefined;
    return shelf?.find(id);
  }

  /** An input or output item of a response of the key. */
  findItem(owner: string, itemId: string): JsonObject | undefined {
    const home = this.#shelves.get(owner)?.homeOf(itemId);
    if (home === undefined) return undefined;
    return this.find(owner, home)
      ?.items()
      .find(({ id }) => id === itemId);
  }

  /** A run that goes on is cancelled. */
  delete(owner: string, id: string): boolean {
    const shelf = this.#shelves.get(owner);
    const response = shelf?.find(id);
    if (shelf === undefined || response === undefined) return false;
    response.run?.cancel();
    this.#running.delete(response);
    shelf.delete(id);
    if (shelf.size === 0) this.#shelves.delete(owner);
    return true;
  }

  #sum(measure: (shelf: Shelf) => number): number {
    let sum = 0;
    for (const shelf of this.#shelves.values()) sum += measure(shelf);
    return sum;
  }

  #expectFreeRun(): void {
    if (this.#running.size < MAX_BACKGROUND_RESPONSES) return;
    const message = `Too many background responses: at most ${MAX_BACKGROUND_RESPONSES} run at once. Try again when one has ended.`;
    throw new ApiError({ status: 429, type: "rate_limit_error", code: "rate_limit_exceeded", param: null, message });
  }

  #isOld(bornMs: number): boolean {
    return bornMs < this.#nowMs() - MAX_AGE_MS;
  }

  /** The front of a shelf holds the responses that nobody uses any more. */
  #dropOld(): void {
    for (const [owner, shelf] of this.#shelves) {
      for (let oldest = shelf.oldest(); oldest !== undefined; oldest = shelf.oldest()) {
        if (!this.#isOld(shelf.bornMs(oldest.id) ?? 0)) break;
        this.delete(owner, oldest.id);
      }
    }
  }

  #shrink(): boolean {
    while (this.numResponses > MAX_STORED_RESPONSES && this.#dropOne((shelf) => shelf.size)) {
      // One response a turn.
    }
    while (this.numBytes > MAX_STORED_RESPONSE_BYTES && this.#dropOne((shelf) => shelf.numBytes)) {
      // One response a turn.
    }
    return this.numBytes <= MAX_STORED_RESPONSE_BYTES;
  }

  /** Takes from the key that has the most. False: all that is left runs. */
  #dropOne(measure: (shelf: Shelf) => number): boolean {
    const shelves = [...this.#shelves].sort(([, a], [, b]) => measure(b) - measure(a));
    for (const [owner, shelf] of shelves) {
      const oldest = shelf.oldest();
      if (oldest !== undefined) return this.delete(owner, oldest.id);
    }
    return false;
  }
}
