/**
 * An exclusive lock for an output file or folder: a small file beside it names the owning process. When that process
 * was killed, the next one detects it and takes over.
 */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { mkdir, open, readFile, rename, rm, stat, utimes } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import process from "node:process";
import { fileError, ToolError } from "./tool-error.ts";

interface Owner {
  readonly pid: number;
  readonly host: string;
  /** Start time of the process in clock ticks, which a recycled pid does not share. Empty where unknown. */
  readonly started: string;
  readonly nonce: string;
}

const HEARTBEAT_MS = 10_000;
/** Heartbeat interval, the only sign of a process on another machine. Six missed ones mean that it is gone. */
const SILENT_MS = 60_000;
const ATTEMPTS = 5;
const MAX_OWNER_BYTES = 4096;

export class TargetLock implements AsyncDisposable {
  readonly #path: string;
  readonly #owner: Owner;
  readonly #heartbeat: NodeJS.Timeout;

  private constructor(path: string, owner: Owner) {
    this.#path = path;
    this.#owner = owner;
    this.#heartbeat = setInterval(() => void touch(path), HEARTBEAT_MS);
    this.#heartbeat.unref();
  }

  /** @throws ToolError when another process is writing `target` now */
  static async acquire(target: string): Promise<TargetLock> {
    const path = lockPath(target);
    const owner: Owner = {
      pid: process.pid,
      host: hostname(),
      started: startOf(process.pid) ?? "",
      nonce: randomUUID(),
    };
    await mkdir(dirname(path), { recursive: true }).catch((error) => {
      throw fileError("create", dirname(path), error);
    });
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      if (await tryCreate(path, owner)) return new TargetLock(path, owner);
      await removeAbandoned(path, target);
    }
    throw new ToolError(`Cannot take the lock ${path}: others keep taking it`, { fix: "Run the command again" });
  }

  /** Whether the file still names this process: checked before the output is renamed into place. */
  async isHeld(): Promise<boolean> {
    return (await readOwner(this.#path))?.nonce === this.#owner.nonce;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#heartbeat);
    if (await this.isHeld()) await rm(this.#path, { force: true });
  }
}

export function lockPath(target: string): string {
  const path = resolve(target);
  return join(dirname(path), `.${basename(path)}.nereid-lock`);
}

async function tryCreate(path: string, owner: Owner): Promise<boolean> {
  try {
    const file = await open(path, "wx");
    await file.writeFile(JSON.stringify(owner)).finally(() => file.close());
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return false;
    throw fileError("create", path, error);
  }
}

/** Moves aside the file of a process that is gone. @throws ToolError when the process exists */
async function removeAbandoned(path: string, target: string): Promise<void> {
  const owner = await readOwner(path);
  const age = await ageMs(path);
  if (age === undefined) return; // released meanwhile
  if (isAtWork(owner, age)) {
    const who = owner === undefined ? "Another process" : `Process ${owner.pid} on ${owner.host}`;
    throw new ToolError(`${who} is writing ${target} now`, {
      fix: `Wait for it or end it; if you are sure that nothing runs, delete ${path}`,
    });
  }
  const aside = `${path}-${randomUUID()}`;
  try {
    await rename(path, aside);
  } catch {
    return; // another process was faster; the next attempt shows which
  }
  await rm(aside, { force: true });
}

function isAtWork(owner: Owner | undefined, age: number): boolean {
  if (owner === undefined) return age < HEARTBEAT_MS; // being written, or truncated long ago
  if (owner.host !== hostname()) return age < SILENT_MS;
  const started = startOf(owner.pid);
  if (started !== undefined && owner.started !== "") return started === owner.started;
  return isAlive(owner.pid);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM"; // it exists and belongs to another user
  }
}

/**
 * Field 22 of /proc/<pid>/stat (proc_pid_stat(5)), counted after the name, which may hold blanks. Undefined elsewhere
 * than on Linux.
 */
function startOf(pid: number): string | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    return text.slice(text.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}

async function readOwner(path: string): Promise<Owner | undefined> {
  try {
    const text = await readFile(path, "utf8");
    if (text.length > MAX_OWNER_BYTES) return undefined;
    const value: unknown = JSON.parse(text);
    return isOwner(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isOwner(value: unknown): value is Owner {
  if (typeof value !== "object" || value === null) return false;
  const { pid, host, started, nonce } = value as Partial<Record<keyof Owner, unknown>>;
  const isPid = typeof pid === "number" && Number.isInteger(pid) && pid > 0;
  return isPid && typeof host === "string" && typeof started === "string" && typeof nonce === "string";
}

async function ageMs(path: string): Promise<number | undefined> {
  try {
    return Date.now() - (await stat(path)).mtimeMs;
  } catch {
    return undefined;
  }
}

async function touch(path: string): Promise<void> {
  const now = new Date();
  await utimes(path, now, now).catch(() => undefined); // taken over: the check before the end detects it
}
