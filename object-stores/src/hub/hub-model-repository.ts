/**
 * A Hugging Face repository that is one language model: fetches its files and adds a model repository around them, with
 * text in and text out. Source: Hugging Face Hub API.
 */
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "@nereid/server/observe/log";
import type { ArrangeModel } from "@nereid/server/repository/source/remote-repository";
import { FetchedModelRepository, type FetchedRepository } from "../fetched-repository.ts";
import type { ObjectCache } from "../object-cache.ts";
import { ObjectRepository } from "../object-repository.ts";
import type { ObjectStore } from "../object-store.ts";

export interface HubModelOptions {
  readonly store: ObjectStore;
  readonly cache: ObjectCache;
  readonly log: Logger;
  readonly firstPauseMs: number;
  readonly arrange: ArrangeModel;
}

export function createHubModelRepository(options: HubModelOptions): FetchedModelRepository {
  const { store, log, firstPauseMs } = options;
  return new FetchedModelRepository({
    url: store.url,
    log,
    firstPauseMs,
    version: (signal) => versionOf(store, signal),
    bring: (signal) => bring(options, signal),
  });
}

async function versionOf(store: ObjectStore, signal: AbortSignal): Promise<string> {
  const { objects } = await store.list("", true, signal);
  return objects.map(({ path, version }) => `${path} ${version}`).join("\n");
}

/** All files belong to one model, in a folder called `model`. */
class OneModelStore implements ObjectStore {
  readonly url: string;
  readonly #inner: ObjectStore;

  constructor(inner: ObjectStore) {
    this.url = inner.url;
    this.#inner = inner;
  }

  async list(...[, , signal]: Parameters<ObjectStore["list"]>): ReturnType<ObjectStore["list"]> {
    const { objects } = await this.#inner.list("", true, signal);
    return { objects: objects.map((object) => ({ ...object, path: `model/${object.path}` })), folders: ["model"] };
  }

  open(...[object, fromByte, signal]: Parameters<ObjectStore["open"]>): ReturnType<ObjectStore["open"]> {
    return this.#inner.open({ ...object, path: object.path.slice("model/".length) }, fromByte, signal);
  }
}

async function bring(
  { store, cache, log, firstPauseMs, arrange }: HubModelOptions,
  signal: AbortSignal,
): Promise<FetchedRepository> {
  const files = new ObjectRepository({ store: new OneModelStore(store), cache, log, isWatched: false, firstPauseMs });
  const stop = (): void => void files.close();
  signal.addEventListener("abort", stop);
  const local = await files.localize("model").finally(() => signal.removeEventListener("abort", stop));
  const folder = await cache.createFolder();
  try {
    const repositoryPath = join(folder, "repository");
    await arrange(join(local.repositoryPath, "model"), repositoryPath, signal);
    const names = (await readdir(repositoryPath)).filter((name) => !name.startsWith("."));
    const fingerprints = new Map(names.map((name) => [name, local.fingerprint]));
    return { folder, repositoryPath, fingerprints, release: local.release };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    await local.release();
    throw error;
  }
}
