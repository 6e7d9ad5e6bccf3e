/** Which kind of 8-bit weights this processor multiplies exactly. */
import { readFileSync } from "node:fs";
import process from "node:process";
import type { WeightInteger } from "./quantize-matrix.ts";

const CPU_INFO = "/proc/cpuinfo";

/** `cpuInfo`: what the system says of its processors; undefined where it says nothing. */
export function exactWeights(arch: string = process.arch, cpuInfo: string | undefined = readCpuInfo()): WeightInteger {
  // Without these instructions x86 adds two products in 16 bits, which is too few for int8 beside unsigned activations.
  if (arch !== "x64" || cpuInfo === undefined) return "int8";
  return /^flags\s*:.*\b(avx512_vnni|avx_vnni)\b/m.test(cpuInfo) ? "int8" : "uint8";
}

function readCpuInfo(): string | undefined {
  try {
    return readFileSync(CPU_INFO, "utf8");
  } catch {
    return undefined;
  }
}
