/**
 * Refreshes one repository at a time for all who ask, and keeps the reason of the last failure. A refresh that takes long
 * goes on without them: a store that stalls must not hold up loads from other repositories. Knows no store.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { ServerError } from "../../core/server-error.ts";
import type { RepositoryLocation } from "./repository-location.ts";

/** Callers that need nothing of a repository wait so long for its refresh. */
const MAX_LOOK_MS = 2000;

interface RefreshUnderWay {
  readonly startMs: number;
  readonly done: Promise<void>;
}

export class PlaceRefresh {
  readonly #place: RepositoryLocation;
  readonly #onFailure: (error: ServerError) => void;
  #underWay: RefreshUnderWay | undefined;
  #failure: ServerError | undefined;

  constructor(place: RepositoryLocation, onFailure: (error: ServerError) => void) {
    this.#place = place;
    this.#onFailure = onFailure;
  }

  /** The last refresh that ended has failed so; the repository keeps its earlier state. */
  get failure(): ServerError | undefined {
    return this.#failure;
  }

  /** Never rejects. */
  complete(): Promise<void> {
    this.#underWay ??= { startMs: performance.now(), done: this.#refresh() };
    return this.#underWay.done;
  }

  /** As `complete`, but no longer than a caller waits that does not need the repository. Never rejects. */
  async look(): Promise<void> {
    const done = this.complete();
    const leftMs = MAX_LOOK_MS - (performance.now() - (this.#underWay?.startMs ?? 0));
    if (leftMs <= 0) return;
    const timer = new AbortController();
    await Promise.race([done, sleep(leftMs, undefined, { signal: timer.signal }).catch(() => undefined)]);
    timer.abort();
  }

  async #refresh(): Promise<void> {
    try {
      await this.#place.refresh();
      this.#failure = undefined;
    } catch (error) {
      this.#failure = ServerError.from(error);
      this.#onFailure(this.#failure);
    } finally {
      this.#underWay = undefined;
    }
  }
}
