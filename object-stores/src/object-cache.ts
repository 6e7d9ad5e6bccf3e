/**
 * A disk cache of object contents, keyed by location, name and version. Complete contents are reused; interrupted
 * downloads are resumed, also by the next process. Source: docs/decisions/050-remote-repositories.md.
 */
import { createHash, randomUUID } from "node:crypto";
import { lstat, mkdir, readdir, rm, rmdir, stat } from "node:fs/promises";
import { hostname } from "node:os";
import { dirname, join, resolve } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { TargetLock } from "@nereid/server/files/target-lock";
import { fileError, ToolError } from "@nereid/server/files/tool-error";
import { fetchObject } from "./fetch-object.ts";
import type { ObjectStore, StoredObject } from "./object-store.ts";

export interface ObjectCacheOptions {
  readonly folder: string;
  /** Keeps contents that no model uses any more. */
  readonly isPersistent: boolean;
  readonly firstPauseMs: number;
}

export interface FetchReport {
  readonly onBytes: (bytes: number) => void;
  readonly onRetry: (reason: string, pauseMs: number) => void;
}

/** Polling interval while another process fetches the same content. */
const WAIT_MS = 500;
const OWN_ONLY = 0o700;
const FOREIGN_WRITE = 0o022;
const LIVE_PREFIX = `live-${hostname()}-`;
const STARTED = Math.round(performance.timeOrigin);

export class ObjectCache {
  readonly folder: string;
  readonly #options: ObjectCacheOptions;
  readonly #fetching = new Map<string, Promise<void>>();
  /** Contents in use, with the number of models that use each. */
  readonly #users = new Map<string, number>();

  private constructor(options: ObjectCacheOptions) {
    this.#options = options;
    this.folder = resolve(options.folder);
  }

  /** Creates the folder, or adopts one that no other user can write to. @throws ToolError */
  static async open(options: ObjectCacheOptions): Promise<ObjectCache> {
    const cache = new ObjectCache(options);
    await expectOwnFolder(cache.folder);
    await mkdir(join(cache.folder, "objects"), { recursive: true });
    await cache.#removeDeadFolders();
    return cache;
  }

  /** A new empty folder for a model of this process; after a crash the next start removes it. */
  async createFolder(): Promise<string> {
    const path = join(this.folder, `${LIVE_PREFIX}${process.pid}-${STARTED}-${randomUUID().slice(0, 8)}`);
    await mkdir(path, { mode: OWN_ONLY });
    return path;
  }

  async has(store: ObjectStore, object: StoredObject): Promise<boolean> {
    return isThere(this.#path(store, object), object.bytes);
  }

  /** The file with the content, which stays until `release`. @throws ToolError */
  async fetch(store: ObjectStore, object: StoredObject, signal: AbortSignal, report: FetchReport): Promise<string> {
    const path = this.#path(store, object);
    this.#users.set(path, (this.#users.get(path) ?? 0) + 1);
    try {
      let fetching = this.#fetching.get(path);
      if (fetching === undefined) {
        fetching = this.#bring(path, store, object, signal, report).finally(() => this.#fetching.delete(path));
        this.#fetching.set(path, fetching);
      } else {
        fetching = fetching.then(() => report.onBytes(object.bytes));
      }
      await fetching;
    } catch (error) {
      await this.release(path);
      throw error;
    }
    return path;
  }

  async release(path: string): Promise<void> {
    const users = (this.#users.get(path) ?? 1) - 1;
    if (users > 0) {
      this.#users.set(path, users);
      return;
    }
    this.#users.delete(path);
    if (this.#options.isPersistent) return;
    await rm(path, { force: true });
    await rmdir(dirname(path)).catch(() => undefined); // it may hold other versions or partial downloads
  }

  async #bring(
    path: string,
    store: ObjectStore,
    object: StoredObject,
    signal: AbortSignal,
    { onBytes, onRetry }: FetchReport,
  ): Promise<void> {
    await mkdir(dirname(path), { recursive: true });
    await using lock = await this.#lockOrWait(path, object, signal);
    if (lock === undefined || (await isThere(path, object.bytes))) {
      onBytes(object.bytes);
      return;
    }
    const { firstPauseMs } = this.#options;
    const partial = `${path}.part`;
    await fetchObject({ store, object, partial, target: path, firstPauseMs, signal, onBytes, onRetry });
    await this.#removeOlder(path);
  }

  /** Undefined: another process has fetched it. */
  async #lockOrWait(path: string, { bytes }: StoredObject, signal: AbortSignal): Promise<TargetLock | undefined> {
    for (;;) {
      signal.throwIfAborted();
      if (await isThere(path, bytes)) return undefined;
      try {
        return await TargetLock.acquire(path);
      } catch (error) {
        if (!(error instanceof ToolError) || !error.message.endsWith(`is writing ${path} now`)) throw error;
        await sleep(WAIT_MS, undefined, { signal });
      }
    }
  }

  #path(store: ObjectStore, object: StoredObject): string {
    const place = shortHash(`${store.url}\0${object.path}`);
    return join(this.folder, "objects", place, shortHash(`${object.version}\0${object.bytes}`));
  }

  /** Earlier versions of the same object that no model uses. */
  async #removeOlder(path: string): Promise<void> {
    const folder = dirname(path);
    for (const name of await readdir(folder)) {
      const other = join(folder, name);
      if (name.startsWith(".") || other === path || this.#users.has(other.replace(/\.part$/, ""))) continue;
      await rm(other, { force: true });
    }
  }

  /** Folders of processes on this machine that have ended. */
  async #removeDeadFolders(): Promise<void> {
    for (const name of await readdir(this.folder)) {
      const [pid = "", started = ""] = name.startsWith(LIVE_PREFIX) ? name.slice(LIVE_PREFIX.length).split("-") : [];
      if (pid === "" || isAlive(Number(pid), Number(started))) continue;
      await rm(join(this.folder, name), { recursive: true, force: true });
    }
  }
}

/** Models contain code: no other user may put files there. @throws ToolError */
async function expectOwnFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: OWN_ONLY }).catch((error: unknown) => {
    throw fileError("create", folder, error);
  });
  const found = await lstat(folder);
  const isOwn = found.isDirectory() && (process.getuid === undefined || found.uid === process.getuid());
  if (isOwn && (found.mode & FOREIGN_WRITE) === 0) return;
  throw new ToolError(`The model cache ${folder} can be changed by other users`, {
    fix: "Remove it, or name another folder with NEREID_MODEL_CACHE",
  });
}

async function isThere(path: string, bytes: number): Promise<boolean> {
  return stat(path).then(
    ({ size }) => size === bytes,
    () => false,
  );
}

/** A container gives its only process the same pid at every start. */
function isAlive(pid: number, started: number): boolean {
  if (pid === process.pid) return started === STARTED;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}

function shortHash(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 40);
}
