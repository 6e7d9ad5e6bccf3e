/**
 * A model repository in an object store: lists it, tracks its changes and fetches models through the cache. Source:
 * Triton documentation, "Model Repository", Cloud Storage.
 */
import { copyFile, link, mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { requireFreeBytes } from "@nereid/server/files/disk-space";
import { ToolError } from "@nereid/server/files/tool-error";
import { withRetries } from "@nereid/server/hub/retry";
import type { Logger } from "@nereid/server/observe/log";
import type { LocalModel, RemoteRepository } from "@nereid/server/repository/source/remote-repository";
import { groupByModel, type ModelObjects, objectsFingerprint } from "./model-objects.ts";
import type { ObjectCache } from "./object-cache.ts";
import { expectDistinct } from "./object-path.ts";
import type { Listing, ObjectStore, StoredObject } from "./object-store.ts";
import { StaleListing } from "./stale-listing.ts";
import { TransferLog } from "./transfer-log.ts";

export interface ObjectRepositoryOptions {
  readonly store: ObjectStore;
  readonly cache: ObjectCache;
  readonly log: Logger;
  /** Lists the files of all models, not only their names, to detect changes. */
  readonly isWatched: boolean;
  readonly firstPauseMs: number;
}

/** Files fetched at the same time. */
const NUM_WORKERS = 8;
/** Maximum attempts when the store changes during each listing. */
const MAX_LOOKS = 4;

export class ObjectRepository implements RemoteRepository {
  readonly url: string;
  readonly #options: ObjectRepositoryOptions;
  readonly #stop = new AbortController();
  #names: readonly string[] = [];
  #known: ReadonlyMap<string, ModelObjects> = new Map();

  constructor(options: ObjectRepositoryOptions) {
    this.#options = options;
    this.url = options.store.url;
  }

  async refresh(): Promise<void> {
    const listing = await this.#list("", this.#options.isWatched);
    if (this.#options.isWatched) {
      this.#known = groupByModel(listing);
      this.#names = [...this.#known.keys()].sort();
    } else {
      this.#names = [...new Set(listing.folders)].sort();
    }
  }

  models(): readonly string[] {
    return this.#names;
  }

  fingerprint(model: string): string | undefined {
    const known = this.#known.get(model);
    return known === undefined ? undefined : objectsFingerprint(model, known);
  }

  async localize(model: string): Promise<LocalModel> {
    for (let look = 1; ; look += 1) {
      const found = await this.#list(model, true);
      expectDistinct(
        found.objects.map(({ path }) => path),
        this.url,
      );
      try {
        return await this.#bring(model, found);
      } catch (error) {
        if (!(error instanceof StaleListing) || look === MAX_LOOKS) throw error;
        this.#options.log.info("model_store", `${error.message}; looking again`);
      }
    }
  }

  async close(): Promise<void> {
    this.#stop.abort(new ToolError(`${this.url}: the server ends`));
  }

  async #list(folder: string, isDeep: boolean): Promise<Listing> {
    const { store, log, firstPauseMs } = this.#options;
    const retry = {
      signal: this.#stop.signal,
      firstPauseMs,
      progress: () => 0,
      onRetry: (reason: string) => log.warn("model_store", `${reason}; trying again`),
    };
    return withRetries(`listing of ${this.url}`, retry, () => store.list(folder, isDeep, this.#stop.signal));
  }

  async #bring(model: string, found: ModelObjects): Promise<LocalModel> {
    const { cache } = this.#options;
    const contents = await this.#fetchAll(model, found.objects);
    const releaseContents = async (): Promise<void> => {
      for (const path of contents.values()) await cache.release(path);
    };
    let root: string | undefined;
    const remove = async (): Promise<void> => {
      if (root !== undefined) await rm(root, { recursive: true, force: true }).catch(() => undefined);
      await releaseContents();
    };
    try {
      root = await cache.createFolder();
      await mkdir(join(root, model), { recursive: true });
      for (const folder of found.folders) await mkdir(join(root, folder), { recursive: true });
      for (const [path, content] of contents) await place(content, join(root, path));
    } catch (error) {
      await remove();
      throw error;
    }
    return { repositoryPath: root, fingerprint: objectsFingerprint(model, found), release: remove };
  }

  /** Path to file in the cache. When one fails, the others are aborted and none is kept for this model. */
  async #fetchAll(model: string, objects: readonly StoredObject[]): Promise<Map<string, string>> {
    const { store, cache, log } = this.#options;
    const contents = new Map<string, string>();
    const isMissing = await Promise.all(objects.map(async (object) => !(await cache.has(store, object))));
    const missing = objects.filter((_, i) => isMissing[i]);
    const totalBytes = missing.reduce((sum, { bytes }) => sum + bytes, 0);
    await requireFreeBytes(cache.folder, totalBytes);
    const progress =
      missing.length === 0 ? undefined : new TransferLog(log, `'${this.url}/${model}'`, missing.length, totalBytes);
    const failed = new AbortController();
    const signal = AbortSignal.any([this.#stop.signal, failed.signal]);
    const fetching = new Set(missing);
    const waiting = [...objects].sort((a, b) => a.bytes - b.bytes); // large ones first, so that the last worker ends early
    const work = async (): Promise<void> => {
      for (let object = waiting.pop(); object !== undefined; object = waiting.pop()) {
        const isCounted = fetching.has(object);
        const report = {
          onBytes: (bytes: number) => (isCounted ? progress?.add(bytes) : undefined),
          onRetry: (reason: string, pauseMs: number) => progress?.retried(reason, pauseMs),
        };
        contents.set(object.path, await cache.fetch(store, object, signal, report));
      }
    };
    const workers = Array.from({ length: Math.min(NUM_WORKERS, objects.length) }, () =>
      work().catch((error: unknown) => {
        if (!failed.signal.aborted) failed.abort(error);
      }),
    );
    await Promise.all(workers);
    if (signal.aborted) {
      for (const path of contents.values()) await cache.release(path);
      throw signal.reason;
    }
    progress?.end();
    return contents;
  }
}

/** A hard link costs nothing; other file systems get a copy. @throws StaleListing when the content was just removed */
async function place(content: string, path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  try {
    await link(content, path).catch(() => copyFile(content, path));
  } catch (error) {
    const isGone = error instanceof Error && "code" in error && error.code === "ENOENT";
    throw isGone ? new StaleListing(`another server has removed ${content}, which it needed no more`) : error;
  }
}
