/**
 * Atomic output files and folders. Work goes to a hidden name beside the target; complete and synced output is renamed
 * into place. The next run removes leftovers of a killed run, or resumes from them when asked.
 */
import { randomUUID } from "node:crypto";
import { type FileHandle, lstat, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { PARTIAL_SUFFIX, PREVIOUS_SUFFIX } from "../core/unfinished-name.ts";
import { TargetLock } from "./target-lock.ts";
import { fileError, ToolError } from "./tool-error.ts";

/** Working folder of `openAtomicFolder` before `target` exists. */
export function partialPath(target: string): string {
  return hiddenBeside(target, PARTIAL_SUFFIX);
}

export interface AtomicFolderOptions {
  /** Behaviour when the target exists: refuse (default), or replace it when the new one is complete. */
  readonly existing?: "refuse" | "replace";
  /** Leftovers of a killed run: removed (default), or kept for resuming. */
  readonly leftovers?: "remove" | "keep";
}

/**
 * `using folder = await openAtomicFolder(target)`: write inside `path`, then `commit()`. Leaving without a commit
 * removes the work.
 */
export class AtomicFolder implements AsyncDisposable {
  readonly target: string;
  /** The folder to write into. */
  readonly path: string;
  readonly #lock: TargetLock;
  readonly #keepsLeftovers: boolean;
  #isDone = false;

  constructor(target: string, lock: TargetLock, keepsLeftovers: boolean) {
    this.target = target;
    this.path = partialPath(target);
    this.#lock = lock;
    this.#keepsLeftovers = keepsLeftovers;
  }

  /** Syncs everything, then renames once. Before the rename the old target stays intact. */
  async commit(): Promise<void> {
    if (!(await this.#lock.isHeld())) {
      throw new ToolError(`Another process has taken over ${this.target}`, { fix: "Run the command again" });
    }
    await moveFolder(this.path, this.target).catch((error) => {
      throw fileError("write", this.target, error);
    });
    this.#isDone = true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#isDone && !this.#keepsLeftovers) await rm(this.path, { recursive: true, force: true });
    await this.#lock[Symbol.asyncDispose]();
  }
}

/** @throws ToolError when the target exists and may not be replaced, or another process is writing it */
export async function openAtomicFolder(target: string, options: AtomicFolderOptions = {}): Promise<AtomicFolder> {
  const path = resolve(target);
  const lock = await TargetLock.acquire(path);
  try {
    await finishReplacement(path);
    if (options.existing !== "replace") await expectFreeTarget(path);
    const keepsLeftovers = options.leftovers === "keep";
    const folder = new AtomicFolder(path, lock, keepsLeftovers);
    if (!keepsLeftovers) await rm(folder.path, { recursive: true, force: true });
    await mkdir(folder.path, { recursive: true });
    return folder;
  } catch (error) {
    await lock[Symbol.asyncDispose]();
    throw fileError("write", path, error);
  }
}

/** Writes one file atomically. The mode of a replaced file stays. */
export async function writeFileAtomically(
  target: string,
  content: string | Uint8Array | ((file: FileHandle) => Promise<void>),
): Promise<void> {
  const path = resolve(target);
  const partial = hiddenBeside(path, `${PARTIAL_SUFFIX}-${randomUUID()}`);
  try {
    const mode = await stat(path).then(
      (found) => found.mode & 0o777,
      () => undefined,
    );
    const file = await open(partial, "wx", mode);
    try {
      if (typeof content === "function") await content(file);
      else await file.writeFile(content);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(partial, path);
    await syncFolder(dirname(path));
  } catch (error) {
    await rm(partial, { force: true });
    throw fileError("write", path, error);
  }
}

/**
 * Removes partial files of killed `writeFileAtomically` runs beside `target`. Call it while holding the target's lock.
 */
export async function removeLeftovers(target: string): Promise<void> {
  const path = resolve(target);
  const prefix = `.${basename(path)}${PARTIAL_SUFFIX}-`;
  const names = await readdir(dirname(path)).catch(() => []);
  for (const name of names.filter((each) => each.startsWith(prefix)))
    await rm(join(dirname(path), name), { force: true });
}

function hiddenBeside(target: string, suffix: string): string {
  const path = resolve(target);
  return join(dirname(path), `.${basename(path)}${suffix}`);
}

/**
 * Syncs everything, then renames. A folder cannot replace a folder with content, so the old one is moved aside first.
 * The next `openAtomicFolder` restores it when the new one did not arrive.
 */
export async function moveFolder(from: string, target: string): Promise<void> {
  await syncTree(from);
  const previous = hiddenBeside(target, PREVIOUS_SUFFIX);
  await rm(previous, { recursive: true, force: true });
  const hadTarget = await exists(target);
  if (hadTarget) await rename(target, previous);
  await rename(from, target);
  await syncFolder(dirname(target));
  if (hadTarget) await rm(previous, { recursive: true, force: true });
}

/** After a kill between the two renames, restores the old folder. After the second rename, removes it. */
async function finishReplacement(target: string): Promise<void> {
  const previous = hiddenBeside(target, PREVIOUS_SUFFIX);
  if (!(await exists(previous))) return;
  if (await exists(target)) await rm(previous, { recursive: true, force: true });
  else await rename(previous, target);
}

async function expectFreeTarget(path: string): Promise<void> {
  const names = await readdir(path).catch((error) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw error;
  });
  if (names.length > 0) {
    throw new ToolError(`${path} is there already and holds ${names.length} ${names.length === 1 ? "file" : "files"}`, {
      fix: "Name another folder, remove this one, or give --force to replace it",
    });
  }
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

async function syncTree(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await syncTree(path);
    else if (entry.isFile()) await syncFile(path);
  }
  await syncFolder(folder);
}

async function syncFile(path: string): Promise<void> {
  const file = await open(path, "r"); // a copied file may be read-only
  await file.sync().finally(() => file.close());
}

/** A rename is durable when its folder is synced. Some file systems refuse to sync folders. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r").catch(() => undefined);
  if (folder === undefined) return;
  await folder
    .sync()
    .catch(() => undefined)
    .finally(() => folder.close());
}
