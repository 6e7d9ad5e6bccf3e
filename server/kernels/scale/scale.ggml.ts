/**
 * Every element times one factor known when recording: embedding multipliers, logit scales. Bound by bytes. Source:
 * ggml.h, ggml_scale.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface ScaleArgs {
  readonly x: CpuTensor; // [numRows, width]
  readonly factor: number;
}

export function recordScale(graph: CpuGraph, { x, factor }: ScaleArgs): CpuTensor {
  expectTensor("scale x", x, ["f32"], [-1, -1]);
  return { handle: graph.ggml.base.scale(graph.claim(), x.handle, factor), type: "f32", shape: x.shape };
}
