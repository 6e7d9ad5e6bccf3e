/**
 * A repository that is fetched as a whole: downloaded again when its version changes, kept while one of its models is
 * in use. Source: Triton documentation, "Model Repository", for the layout of the result.
 */
import { rm } from "node:fs/promises";
import { ToolError } from "@nereid/server/files/tool-error";
import { withRetries } from "@nereid/server/hub/retry";
import type { Logger } from "@nereid/server/observe/log";
import type { LocalModel, RemoteRepository } from "@nereid/server/repository/source/remote-repository";
import { StaleListing } from "./stale-listing.ts";

/** One fetched version. */
export interface FetchedRepository {
  /** Removed when no model uses it any more. */
  readonly folder: string;
  /** Folder inside it that holds the model folders. */
  readonly repositoryPath: string;
  /** Model name to a fingerprint of its files. */
  readonly fingerprints: ReadonlyMap<string, string>;
  release(): Promise<void>;
}

export interface FetchedModelRepositoryOptions {
  readonly url: string;
  readonly log: Logger;
  readonly firstPauseMs: number;
  /** Changes with the repository. */
  readonly version: (signal: AbortSignal) => Promise<string>;
  /** The current version of the repository. @throws ToolError, StaleListing */
  readonly bring: (signal: AbortSignal) => Promise<FetchedRepository>;
}

class Holding {
  readonly version: string;
  readonly fetched: FetchedRepository;
  #users = 1;

  constructor(version: string, fetched: FetchedRepository) {
    this.version = version;
    this.fetched = fetched;
  }

  take(): void {
    this.#users += 1;
  }

  async release(): Promise<void> {
    this.#users -= 1;
    if (this.#users > 0) return;
    await rm(this.fetched.folder, { recursive: true, force: true }).catch(() => undefined);
    await this.fetched.release();
  }
}

const MAX_LOOKS = 4;

export class FetchedModelRepository implements RemoteRepository {
  readonly url: string;
  readonly #options: FetchedModelRepositoryOptions;
  readonly #stop = new AbortController();
  #current: Holding | undefined;
  #refreshing: Promise<void> | undefined;

  constructor(options: FetchedModelRepositoryOptions) {
    this.url = options.url;
    this.#options = options;
  }

  /** Concurrent callers share one check. */
  refresh(): Promise<void> {
    this.#refreshing ??= this.#refresh().finally(() => {
      this.#refreshing = undefined;
    });
    return this.#refreshing;
  }

  models(): readonly string[] {
    return [...(this.#current?.fetched.fingerprints.keys() ?? [])].sort();
  }

  fingerprint(model: string): string | undefined {
    return this.#current?.fetched.fingerprints.get(model);
  }

  async localize(model: string): Promise<LocalModel> {
    const holding = this.#current;
    const fingerprint = holding?.fetched.fingerprints.get(model);
    if (holding === undefined || fingerprint === undefined) throw new ToolError(`${this.url} has no model '${model}'`);
    holding.take();
    const { repositoryPath } = holding.fetched;
    return { repositoryPath, fingerprint, release: () => holding.release() };
  }

  async close(): Promise<void> {
    this.#stop.abort(new ToolError(`${this.url}: the server ends`));
    await this.#refreshing?.catch(() => undefined);
    const holding = this.#current;
    this.#current = undefined;
    await holding?.release();
  }

  async #refresh(): Promise<void> {
    for (let look = 1; ; look += 1) {
      const version = await this.#look();
      if (this.#current?.version === version) return;
      try {
        const before = this.#current;
        this.#current = new Holding(version, await this.#options.bring(this.#stop.signal));
        await before?.release();
        return;
      } catch (error) {
        if (!(error instanceof StaleListing) || look === MAX_LOOKS) throw error;
      }
    }
  }

  #look(): Promise<string> {
    const retry = {
      signal: this.#stop.signal,
      firstPauseMs: this.#options.firstPauseMs,
      progress: () => 0,
      onRetry: (reason: string) => this.#options.log.warn("model_store", `${reason}; trying again`),
    };
    return withRetries(this.url, retry, () => this.#options.version(this.#stop.signal));
  }
}
