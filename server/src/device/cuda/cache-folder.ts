/** Files of a cache on disk. A folder that cannot be read or written costs time, nothing else. */
import { randomUUID } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import type { Environment } from "../../core/environment.ts";

export class CacheFolder {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  get(name: string): Uint8Array | undefined {
    try {
      return readFileSync(join(this.#folder, name));
    } catch {
      return undefined;
    }
  }

  /** Other processes see the whole file or none. */
  set(name: string, bytes: Uint8Array | string): void {
    const path = join(this.#folder, name);
    const draft = `${path}.${randomUUID()}`;
    try {
      mkdirSync(this.#folder, { recursive: true });
      writeFileSync(draft, bytes);
      renameSync(draft, path);
    } catch {
      discard(draft);
    }
  }
}

/** The user's folder for a kind of cached file (XDG Base Directory Specification). */
export function userCacheFolder(kind: string): string {
  const { XDG_CACHE_HOME }: Environment = process.env;
  const root = XDG_CACHE_HOME === undefined || XDG_CACHE_HOME === "" ? join(homedir(), ".cache") : XDG_CACHE_HOME;
  return join(root, "nereid", kind);
}

function discard(draft: string): void {
  try {
    rmSync(draft, { force: true });
  } catch {
    // Nothing was written, so nothing is left behind.
  }
}
