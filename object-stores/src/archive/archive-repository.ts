/**
 * A model repository from an archive behind an address: fetched through the cache, unpacked, served from its folders.
 * Format: pax (POSIX.1-2017) tar, optionally gzip (RFC 1952).
 */
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { requireFreeBytes } from "@nereid/server/files/disk-space";
import { ToolError } from "@nereid/server/files/tool-error";
import type { Logger } from "@nereid/server/observe/log";
import { FetchedModelRepository, type FetchedRepository } from "../fetched-repository.ts";
import type { ObjectCache } from "../object-cache.ts";
import type { ObjectStore, StoredObject } from "../object-store.ts";
import { TransferLog } from "../transfer-log.ts";
import { unpackLimits, unpackTar } from "./unpack-tar.ts";

export interface ArchiveRepositoryOptions {
  readonly store: ObjectStore;
  readonly cache: ObjectCache;
  readonly log: Logger;
  readonly firstPauseMs: number;
}

export function createArchiveRepository(options: ArchiveRepositoryOptions): FetchedModelRepository {
  const { store, log, firstPauseMs } = options;
  return new FetchedModelRepository({
    url: store.url,
    log,
    firstPauseMs,
    version: async (signal) => versionText(await archiveOf(store, signal)),
    bring: (signal) => bring(options, signal),
  });
}

async function archiveOf(store: ObjectStore, signal: AbortSignal): Promise<StoredObject> {
  const [archive] = (await store.list("", true, signal)).objects;
  if (archive === undefined) throw new ToolError(`${store.url} is not there`);
  return archive;
}

function versionText({ version, bytes }: StoredObject): string {
  return `${version} ${bytes}`;
}

async function bring({ store, cache, log }: ArchiveRepositoryOptions, signal: AbortSignal): Promise<FetchedRepository> {
  const archive = await archiveOf(store, signal);
  const content = await fetchArchive(store, archive, cache, log, signal);
  const folder = await cache.createFolder();
  try {
    const limits = await unpackLimits(archive.bytes, folder);
    const files = await unpackTar(content, !archive.path.endsWith(".tar"), folder, limits, signal);
    const root = await rootOf(folder);
    const repositoryPath = join(folder, root);
    const fingerprints = modelFingerprints(files, root);
    if (fingerprints.size === 0) throw new ToolError(`${store.url} holds no folder of a model`);
    return { folder, repositoryPath, fingerprints, release: () => cache.release(content) };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    await cache.release(content);
    throw error;
  }
}

async function fetchArchive(
  store: ObjectStore,
  archive: StoredObject,
  cache: ObjectCache,
  log: Logger,
  signal: AbortSignal,
): Promise<string> {
  const isThere = await cache.has(store, archive);
  if (!isThere) await requireFreeBytes(cache.folder, archive.bytes);
  const progress = isThere ? undefined : new TransferLog(log, `'${store.url}'`, 1, archive.bytes);
  const content = await cache.fetch(store, archive, signal, {
    onBytes: (bytes) => progress?.add(bytes),
    onRetry: (reason, pauseMs) => progress?.retried(reason, pauseMs),
  });
  progress?.end();
  return content;
}

/** Skips a single top-level folder, as archives of source trees have one. */
async function rootOf(folder: string): Promise<string> {
  const entries = await readdir(folder, { withFileTypes: true });
  const [only] = entries;
  if (only === undefined || entries.length > 1 || !only.isDirectory()) return "";
  const inside = await readdir(join(folder, only.name));
  const isModel = inside.some((name) => name === "config.pbtxt" || /^[1-9][0-9]*$/.test(name));
  return isModel ? "" : only.name;
}

/** By folder inside `root`: paths with the hashes of their contents. Pure. */
export function modelFingerprints(files: ReadonlyMap<string, string>, root: string): ReadonlyMap<string, string> {
  const prefix = root === "" ? "" : `${root}/`;
  const lines = new Map<string, string[]>();
  for (const [path, hash] of files) {
    const [model = "", ...inner] = path.startsWith(prefix) ? path.slice(prefix.length).split("/") : [];
    if (model === "" || (inner.length === 0 && hash !== "")) continue; // a file beside the models
    const known = lines.get(model) ?? [];
    if (inner.length > 0) known.push(`${inner.join("/")} ${hash}`);
    lines.set(model, known);
  }
  return new Map([...lines].map(([model, known]) => [model, known.sort().join("\n")]));
}
