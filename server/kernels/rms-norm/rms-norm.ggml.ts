/**
 * RMSNorm with a weight per column; ggml fuses the two nodes. Bound by bytes. Source: RMSNorm (Zhang and Sennrich
 * 2019); ggml.h, ggml_rms_norm.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface RmsNormArgs {
  readonly x: CpuTensor; // [numRows, width]
  readonly weight: CpuTensor; // [width]
  readonly epsilon: number;
}

export function recordRmsNorm(graph: CpuGraph, { x, weight, epsilon }: RmsNormArgs): CpuTensor {
  expectTensor("rmsNorm x", x, ["f32"], [-1, -1]);
  expectTensor("rmsNorm weight", weight, ["f32"], [x.shape[1] ?? 0]);
  const normed = graph.ggml.base.rmsNorm(graph.claim(), x.handle, epsilon);
  return { handle: graph.ggml.base.mul(graph.claim(), normed, weight.handle), type: "f32", shape: x.shape };
}
