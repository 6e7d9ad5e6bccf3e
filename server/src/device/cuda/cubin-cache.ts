/**
 * Keeps machine code of kernels on disk, by all that it depends on: source and headers, options, architecture, driver. A
 * folder that cannot be written costs compilations, nothing else.
 */

import { createHash } from "node:crypto";
import type { CudaSource } from "../../native/cuda/nvrtc.ts";
import { CacheFolder, userCacheFolder } from "./cache-folder.ts";

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
  readonly #folder: CacheFolder;

  constructor(folder: string = userCacheFolder("cubins")) {
    this.#folder = new CacheFolder(folder);
  }

  get(key: string): Uint8Array | undefined {
    return this.#folder.get(`${key}.cubin`);
  }

  set(key: string, cubin: Uint8Array): void {
    this.#folder.set(`${key}.cubin`, cubin);
  }
}
