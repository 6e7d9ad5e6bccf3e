/**
 * Finds packages of libllama for GPUs, which users install beside the server: CUDA for NVIDIA, Vulkan for the others. A package
 * counts if the driver's library is there as well. It opens neither.
 */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import process from "node:process";
import type { Environment } from "../../core/environment.ts";
import { openLibrary } from "../ffi.ts";

export interface GpuPackage {
  readonly name: string;
  /** Folder with libllama and ggml. */
  readonly directory: string;
}

export interface GpuPackageSearch {
  readonly found: GpuPackage | undefined;
  /** One line for each that does not count, and why. */
  readonly misses: readonly string[];
}

interface Kind {
  readonly suffix: string;
  /** The driver's library, without which the package finds no device. */
  readonly driver: string;
  readonly backend: string;
}

const KINDS: readonly Kind[] = [
  { suffix: "cuda", driver: "libcuda.so.1", backend: "libggml-cuda.so" },
  { suffix: "vulkan", driver: "libvulkan.so.1", backend: "libggml-vulkan.so" },
];

/** The first that can work here. `NEREID_GGML_DIR` is the only place searched where it is set. */
export function findGpuPackage(
  environment: Environment = process.env,
  resolve: (name: string) => string = createRequire(import.meta.url).resolve,
  isLoadable: (library: string) => boolean = canLoad,
): GpuPackageSearch {
  const misses: string[] = [];
  for (const { suffix, driver, backend } of KINDS) {
    const platform = `${process.platform}-${process.arch}-${suffix}`;
    const name = `@node-llama-cpp/${platform}`;
    const directory = environment.NEREID_GGML_DIR || packageFolder(name, platform, resolve);
    if (directory === undefined) misses.push(`${name} is not installed`);
    else if (!existsSync(join(directory, backend))) misses.push(`${directory} has no ${backend}`);
    else if (!isLoadable(driver)) misses.push(`${name} needs ${driver} of the driver, which is not there`);
    else return { found: { name, directory }, misses };
  }
  return { found: undefined, misses };
}

function packageFolder(name: string, platform: string, resolve: (name: string) => string): string | undefined {
  try {
    return join(dirname(dirname(resolve(name))), "bins", platform);
  } catch {
    return undefined;
  }
}

function canLoad(library: string): boolean {
  try {
    openLibrary(library);
    return true;
  } catch {
    return false;
  }
}
