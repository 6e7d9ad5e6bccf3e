/**
 * Keeps machine code of kernels on disk, by all that it depends on: source and headers, options, architecture, driver. A
 * folder that cannot be written costs compilations, nothing else.
 */

import { createHash, randomUUID } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import type { Environment } from "../../core/environment.ts";
import type { CudaSource } from "../../native/cuda/nvrtc.ts";

export function cubinKey(source: CudaSource, options: readonly string[], driverVersion: number): string {
  const hash = createHash("sha256");
  const add = (text: string): void => {
    hash.update(`${Buffer.byteLength(text)}\n`).update(text);
  };
  add(String(driverVersion));
  for (const option of options) add(option);
  add(source.name);
  add(source.text);
  for (const [name, text] of source.headers) {
    add(name);
    add(text);
  }
  return hash.digest("hex");
}

export class CubinCache {
  readonly #folder: string;

  constructor(folder: string = defaultFolder()) {
    this.#folder = folder;
  }

  get(key: string): Uint8Array | undefined {
    try {
      return readFileSync(this.#path(key));
    } catch {
      return undefined;
    }
  }

  /** Other processes see the whole file or none. */
  set(key: string, cubin: Uint8Array): void {
    const draft = `${this.#path(key)}.${randomUUID()}`;
    try {
      mkdirSync(this.#folder, { recursive: true });
      writeFileSync(draft, cubin);
      renameSync(draft, this.#path(key));
    } catch {
      this.#discard(draft);
    }
  }

  #discard(draft: string): void {
    try {
      rmSync(draft, { force: true });
    } catch {
      // Nothing was written, so nothing is left behind.
    }
  }

  #path(key: string): string {
    return join(this.#folder, `${key}.cubin`);
  }
}

function defaultFolder(): string {
  const { XDG_CACHE_HOME }: Environment = process.env;
  const root = XDG_CACHE_HOME === undefined || XDG_CACHE_HOME === "" ? join(homedir(), ".cache") : XDG_CACHE_HOME;
  return join(root, "nereid", "cubins");
}
