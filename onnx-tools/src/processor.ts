/** Selects the 8-bit weight type that this processor multiplies exactly (AVX-VNNI, AVX512-VNNI, Arm dot product). */
import { readFileSync } from "node:fs";
import process from "node:process";
import type { WeightInteger } from "./quantize-matrix.ts";

const CPU_INFO = "/proc/cpuinfo";

/** `cpuInfo`: content of /proc/cpuinfo; empty when unavailable. */
export function exactWeights(arch: string = process.arch, cpuInfo: string = readCpuInfo()): WeightInteger {
  // Without VNNI, x86 adds two products in 16 bits, which overflows for int8 weights and uint8 activations.
  if (arch !== "x64" || cpuInfo === "") return "int8";
  return /^flags\s*:.*\b(avx512_vnni|avx_vnni)\b/m.test(cpuInfo) ? "int8" : "uint8";
}

function readCpuInfo(): string {
  try {
    return readFileSync(CPU_INFO, "utf8");
  } catch {
    return "";
  }
}
