/**
 * Compiles kernels for every architecture that Nereid serves, on machines without a GPU: with the compiler that
 * `NEREID_NVRTC` names, or with the one of the Python package nvidia-cuda-nvrtc. Tells why when there is none, so that
 * tests are skipped by name.
 */
import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { pythonVenv } from "../../../tests/python-venv.ts";
import { longTestsReason } from "../../../tests/support/long-tests.ts";
import { compileOptions, readKernelSource } from "../../src/device/cuda/kernel-source.ts";
import type { KernelSpec } from "../../src/device/cuda/kernel-stream.ts";
import { type Nvrtc, openNvrtc } from "../../src/native/cuda/nvrtc.ts";

export const CUDA_ARCHITECTURES: readonly string[] = ["sm_80", "sm_89", "sm_90a"];

export type CudaCompiler =
  | { readonly nvrtc: Nvrtc; readonly reason?: undefined }
  | { readonly nvrtc: undefined; readonly reason: string };

/**
 * Unoptimized code shows that every instruction is there, in a quarter of the time (NVRTC 12.9 and later, "--Ofast-compile").
 * `npm run test:long` optimizes for the newest.
 */
const OPTIMIZED = longTestsReason === undefined ? "sm_90a" : undefined;
const UNOPTIMIZED = ["-Xptxas", "-O0", "--Ofast-compile=max"];
const REQUIREMENT = "nvidia-cuda-nvrtc>=13.0,<13.1";

/** Never rejects. */
export async function cudaCompiler(): Promise<CudaCompiler> {
  try {
    const override = process.env.NEREID_NVRTC;
    if (override !== undefined && override !== "") return { nvrtc: openNvrtc(override) };
    const venv = await pythonVenv([REQUIREMENT]);
    if (venv.python === undefined) return { nvrtc: undefined, reason: venv.reason };
    const path = findIn(join(dirname(dirname(venv.python)), "lib"));
    if (path === undefined) return { nvrtc: undefined, reason: `${REQUIREMENT} holds no libnvrtc.so.13` };
    return { nvrtc: openNvrtc(path) };
  } catch (error) {
    return { nvrtc: undefined, reason: error instanceof Error ? error.message : String(error) };
  }
}

/** Machine code of a kernel's source. @throws Error with the compiler's log */
export function compileKernel(nvrtc: Nvrtc, spec: Pick<KernelSpec, "source" | "defines">, arch: string): Uint8Array {
  const options = [...compileOptions(arch, spec.defines), ...(arch === OPTIMIZED ? [] : UNOPTIMIZED)];
  return nvrtc.compile(readKernelSource(spec.source), options).cubin;
}

/** Whether a kernel of that name is in the machine code. */
export function hasKernel(cubin: Uint8Array, name: string): boolean {
  return Buffer.from(cubin.buffer, cubin.byteOffset, cubin.byteLength).includes(`.text.${name}\0`);
}

function findIn(lib: string): string | undefined {
  for (const python of readdirSync(lib)) {
    const path = join(lib, python, "site-packages/nvidia/cu13/lib/libnvrtc.so.13");
    if (existsSync(path)) return path;
  }
  return undefined;
}
