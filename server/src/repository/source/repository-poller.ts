/**
 * `--model-control-mode=poll`: polls the repositories and applies changes. A model that fails is logged and retried
 * when its files change, or at each poll while its store is unavailable; served models keep serving. Source: Triton
 * documentation, "Model Management", Model Control Mode POLL.
 */
import { ServerError } from "../../core/server-error.ts";
import type { Logger } from "../../observe/log.ts";
import { Turns } from "../../observe/turns.ts";
import { StoreFailure } from "./repository-location.ts";

/** The part of the manager that the poller needs. */
export interface PolledRepository {
  /** Refreshes remote repositories. */
  refresh(): Promise<void>;
  /** Keys of the models that are in the repositories now. */
  keys(): readonly string[];
  /** Whether several repositories have the model, so that none of them may serve it. */
  isAmbiguous(key: string): boolean;
  /** Changes with any file of the model. @throws when the folder cannot be read */
  fingerprint(key: string): string;
  /** Fingerprint of each loaded model by key, as of its load. */
  loaded(): ReadonlyMap<string, string>;
  loadKey(key: string, options: Readonly<Record<string, never>>): Promise<void>;
  unloadKey(key: string, unloadDependents: boolean): Promise<void>;
}

export class RepositoryPoller implements Disposable {
  readonly #repository: PolledRepository;
  readonly #log: Logger;
  /** Fingerprint of each model at the last poll. */
  readonly #seen = new Map<string, string>();
  #timer: NodeJS.Timeout | undefined;

  constructor(repository: PolledRepository, log: Logger) {
    this.#repository = repository;
    this.#log = log;
    for (const [key, fingerprint] of repository.loaded()) this.#seen.set(key, fingerprint);
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

  /** One poll. Never rejects. */
  async poll(): Promise<void> {
    try {
      await this.#repository.refresh();
      const present = new Set(this.#repository.keys());
      for (const key of this.#repository.loaded().keys()) {
        if (present.has(key) && !this.#repository.isAmbiguous(key)) continue;
        this.#seen.delete(key);
        await this.#repository.unloadKey(key, false);
      }
      const turns = new Turns();
      for (const key of present) {
        await this.#follow(key);
        if (turns.isOver) await turns.next();
      }
    } catch (error) {
      this.#log.error("repository_poller", `failed to poll the model repository: ${ServerError.from(error).message}`);
    }
  }

  /** Handles one model: its failure does not affect the others. */
  async #follow(key: string): Promise<void> {
    const fingerprint = this.#fingerprint(key);
    if (this.#seen.get(key) === fingerprint) return;
    this.#seen.set(key, fingerprint);
    await this.#repository.loadKey(key, {}).catch((thrown: unknown) => {
      const error = ServerError.from(thrown);
      this.#log.error("repository_poller", error.message.trimEnd());
      if (error instanceof StoreFailure && error.code === "unavailable") this.#seen.delete(key); // the store may be back at the next poll
    });
  }

  /** An unreadable folder is tried once per reason. */
  #fingerprint(key: string): string {
    try {
      return this.#repository.fingerprint(key);
    } catch (error) {
      return `unreadable: ${error instanceof Error ? error.message : String(error)}`;
    }
  }
}
