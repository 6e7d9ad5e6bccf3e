/**
 * Files and folders that are there whole or not at all. Work goes to a hidden name beside the target; only what is complete and
 * on the disk is renamed into place. What a killed run left behind is removed by the next, or taken up again if asked.
 */
import { randomUUID } from "node:crypto";
import { type FileHandle, lstat, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { PARTIAL_SUFFIX, PREVIOUS_SUFFIX } from "../core/unfinished-name.ts";
import { TargetLock } from "./target-lock.ts";
import { fileError, ToolError } from "./tool-error.ts";

/** Where `openAtomicFolder` works before `target` exists. */
export function partialPath(target: string): string {
  return hiddenBeside(target, PARTIAL_SUFFIX);
}

export interface AtomicFolderOptions {
  /** What is there already: refused by default, or replaced when the new one is complete. */
  readonly existing?: "refuse" | "replace";
  /** Leftovers of a killed run: removed by default, or kept for the caller to take up. */
  readonly leftovers?: "remove" | "keep";
}

/** `using folder = await openAtomicFolder(target)`: write below `path`, then `commit()`. Leaving without it removes the work. */
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

  /** Everything to the disk, then one rename. The target appears whole, or what was there stays. */
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

/** @throws ToolError when the target is there and may not be replaced, or another process is writing it */
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

/** One file: whole, or as it was before. The mode of a file that is replaced stays. */
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

/** Removes partial files that killed runs of `writeFileAtomically` left beside `target`. Call it while holding the target's lock. */
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
 * Everything to the disk, then one rename. A folder cannot be renamed over one that holds files: the old one steps aside
 * first, and the next `openAtomicFolder` brings it back if the new one does not arrive.
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

/** A run that was killed between the two renames: the old folder is put back. After the second, it is removed. */
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

/** A rename is on the disk when its folder is. Some file systems refuse to sync folders: there it is as safe as they make it. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r").catch(() => undefined);
  if (folder === undefined) return;
  await folder
    .sync()
    .catch(() => undefined)
    .finally(() => folder.close());
}
