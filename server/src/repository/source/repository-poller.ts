/**
 * `--model-control-mode=poll`: looks at the repositories every so often and follows what changed there. A model that fails
 * is logged and looked at again only when its files change; nothing that serves is given up for it.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { ServerError } from "../../core/server-error.ts";
import type { Logger } from "../../observe/log.ts";

/** What the poller needs of the manager. */
export interface PolledRepository {
  /** Looks again at what is not on this machine. */
  refresh(): Promise<void>;
  /** Models that lie in the repositories now, each by what tells it from all others. */
  keys(): readonly string[];
  /** Several repositories have the model, so that none of them does. */
  isAmbiguous(key: string): boolean;
  /** Changes with any file of the model. @throws when the folder cannot be read */
  fingerprint(key: string): string;
  loadedKeys(): readonly string[];
  loadKey(key: string, options: Readonly<Record<string, never>>): Promise<void>;
  unloadKey(key: string, unloadDependents: boolean): Promise<void>;
}

/** Looking at files holds requests up: after so long it is their turn. */
const MAX_TURN_MS = 2;

export class RepositoryPoller implements Disposable {
  readonly #repository: PolledRepository;
  readonly #log: Logger;
  /** As each model was when it was last looked at. */
  readonly #seen = new Map<string, string>();
  #timer: NodeJS.Timeout | undefined;

  constructor(repository: PolledRepository, log: Logger) {
    this.#repository = repository;
    this.#log = log;
    for (const key of repository.loadedKeys()) this.#seen.set(key, this.#fingerprint(key));
  }

  /** Polls `periodMs` after the end of each poll. */
  start(periodMs: number): void {
    this.#timer = setTimeout(() => {
      void this.poll().finally(() => {
        if (this.#timer !== undefined) this.start(periodMs);
      });
    }, periodMs);
    this.#timer.unref();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** One look. Never rejects. */
  async poll(): Promise<void> {
    try {
      await this.#repository.refresh();
      const present = new Set(this.#repository.keys());
      for (const key of this.#repository.loadedKeys()) {
        if (present.has(key) && !this.#repository.isAmbiguous(key)) continue;
        this.#seen.delete(key);
        await this.#repository.unloadKey(key, false);
      }
      let turnMs = performance.now();
      for (const key of present) {
        await this.#follow(key);
        if (performance.now() - turnMs < MAX_TURN_MS) continue;
        await nextTurn();
        turnMs = performance.now();
      }
    } catch (error) {
      this.#log.error("repository_poller", `failed to poll the model repository: ${ServerError.from(error).message}`);
    }
  }

  /** What is wrong with one model is no matter to the others. */
  async #follow(key: string): Promise<void> {
    const fingerprint = this.#fingerprint(key);
    if (this.#seen.get(key) === fingerprint) return;
    this.#seen.set(key, fingerprint);
    await this.#repository.loadKey(key, {}).catch((error: unknown) => {
      this.#log.error("repository_poller", ServerError.from(error).message.trimEnd());
    });
  }

  /** A folder that cannot be read is tried once for each reason. */
  #fingerprint(key: string): string {
    try {
      return this.#repository.fingerprint(key);
    } catch (error) {
      return `unreadable: ${error instanceof Error ? error.message : String(error)}`;
    }
  }
}
