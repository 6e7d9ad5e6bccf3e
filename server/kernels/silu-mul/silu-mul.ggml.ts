/**
 * silu(gate) * up, from one projection whose rows hold the gate columns, then the up columns. Bound by bytes. Source:
 * SwiGLU (Shazeer 2020); ggml.h, ggml_swiglu.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface SiluMulArgs {
  readonly gateUp: CpuTensor; // [numRows, 2 * width]
}

export function recordSiluMul(graph: CpuGraph, { gateUp }: SiluMulArgs): CpuTensor {
  expectTensor("siluMul gateUp", gateUp, ["f32"], [-1, -1]);
  const [numRows = 0, columns = 0] = gateUp.shape;
  if (columns % 2 !== 0) throw new Error(`siluMul gateUp: expected an even width, got ${columns}`);
  return {
    handle: graph.ggml.base.swiglu(graph.claim(), gateUp.handle),
    type: "f32",
    shape: [numRows, columns / 2],
  };
}
