/** Rows of a and b behind each other, as draft heads read them (EAGLE-3, Li et al. 2025). Bound by bytes. Source: ggml.h, ggml_concat. */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface ConcatArgs {
  readonly a: CpuTensor; // [numRows, widthA]
  readonly b: CpuTensor; // [numRows, widthB]
}

/** [numRows, widthA + widthB] */
export function recordConcat(graph: CpuGraph, { a, b }: ConcatArgs): CpuTensor {
  expectTensor("concat a", a, ["f32"], [-1, -1]);
  const [numRows = 0, width = 0] = a.shape;
  expectTensor("concat b", b, ["f32"], [numRows, -1]);
  const handle = graph.ggml.base.concat(graph.claim(), a.handle, b.handle, 0);
  return { handle, type: "f32", shape: [numRows, width + (b.shape[1] ?? 0)] };
}
