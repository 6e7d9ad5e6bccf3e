/** Kept responses of one key, those that were used longest ago first, and where their items are. Source: own design. */
import type { StoredResponse } from "./stored-response.ts";

interface Entry {
  readonly response: StoredResponse;
  readonly bornMs: number;
  numBytes: number;
}

export class Shelf {
  readonly #entries = new Map<string, Entry>();
  /** Id of the latest response that has the item. */
  readonly #homes = new Map<string, string>();
  #numBytes = 0;

  get size(): number {
    return this.#entries.size;
  }

  get numBytes(): number {
    return this.#numBytes;
  }

  add(response: StoredResponse, nowMs: number): void {
    this.#entries.set(response.id, { response, bornMs: nowMs, numBytes: 0 });
    this.update(response);
  }

  /** The response has grown, or it is over. */
  update(response: StoredResponse): void {
    const entry = this.#entries.get(response.id);
    if (entry === undefined) return;
    this.#numBytes += response.numBytes - entry.numBytes;
    entry.numBytes = response.numBytes;
    if (response.isRunning) return;
    for (const itemId of response.itemIds) this.#homes.set(itemId, response.id);
  }

  /** Counts as a use. */
  find(id: string): StoredResponse | undefined {
    const entry = this.#entries.get(id);
    if (entry === undefined) return undefined;
    this.#entries.delete(id);
    this.#entries.set(id, entry);
    return entry.response;
  }

  bornMs(id: string): number | undefined {
    return this.#entries.get(id)?.bornMs;
  }

  /** Id of a response that has the item. */
  homeOf(itemId: string): string | undefined {
    return this.#homes.get(itemId);
  }

  delete(id: string): boolean {
    const entry = this.#entries.get(id);
    if (entry === undefined) return false;
    this.#entries.delete(id);
    this.#numBytes -= entry.numBytes;
    for (const itemId of entry.response.itemIds) {
      if (this.#homes.get(itemId) === id) this.#homes.delete(itemId);
    }
    return true;
  }

  /** The one that was used longest ago and is over. */
  oldest(): StoredResponse | undefined {
    for (const { response } of this.#entries.values()) if (!response.isRunning) return response;
    return undefined;
  }
}
