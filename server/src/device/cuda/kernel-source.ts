/**
 * The source of a kernel with all it includes, and the options it is compiled with: together they are what its machine
 * code depends on. Knows where sources lie; compiles nothing.
 */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { Environment } from "../../core/environment.ts";
import type { CudaSource } from "../../native/cuda/nvrtc.ts";

/** Beside the compiled program, or beside the sources. `NEREID_KERNELS` names another folder. */
const FOLDERS: readonly string[] = ["../../../kernels", "../../../../kernels"].map((path) =>
  fileURLToPath(new URL(path, import.meta.url)),
);
/** Shared device functions: `#include "elem.cuh"` finds cuda/elem.cuh. */
const HEADERS = "cuda";
const COMMON_HEADER = "elem.cuh";

/** @throws Error naming the places searched */
export function kernelFolder(environment: Environment = process.env): string {
  const named = environment.NEREID_KERNELS;
  const folders = named === undefined || named === "" ? FOLDERS : [named];
  // Beside the compiled program lie the launchers too, without what they launch.
  const found = folders.find((folder) => existsSync(join(folder, HEADERS, COMMON_HEADER)));
  if (found !== undefined) return found;
  throw new Error(
    `the sources of the GPU kernels are missing: no ${HEADERS}/${COMMON_HEADER} in ${folders.join(", ")}`,
  );
}

/** `path` as in `KernelSpec.source`. @throws Error when there is no such file */
export function readKernelSource(path: string, folder: string = kernelFolder()): CudaSource {
  const headers = new Map<string, string>();
  for (const name of readdirSync(join(folder, HEADERS)).sort()) {
    if (name.endsWith(".cuh")) headers.set(name, readFileSync(join(folder, HEADERS, name), "utf8"));
  }
  return { name: path, text: readFileSync(join(folder, path), "utf8"), headers };
}

/** `arch` as "sm_90a". */
export function compileOptions(arch: string, defines: Readonly<Record<string, string | number>>): readonly string[] {
  const names = Object.keys(defines).sort();
  return [
    `--gpu-architecture=${arch}`,
    "--std=c++17",
    "--device-as-default-execution-space",
    "--extra-device-vectorization",
    ...names.map((name) => `--define-macro=${name}=${defines[name]}`),
  ];
}
