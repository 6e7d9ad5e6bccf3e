/** a + b of one shape: the residual stream. Bound by bytes. Source: ggml.h, ggml_add. */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface AddArgs {
  readonly a: CpuTensor; // [numRows, width]
  readonly b: CpuTensor; // [numRows, width]
}

export function recordAdd(graph: CpuGraph, { a, b }: AddArgs): CpuTensor {
  expectTensor("add a", a, ["f32"], [-1, -1]);
  expectTensor("add b", b, ["f32"], a.shape);
  return { handle: graph.ggml.base.add(graph.claim(), a.handle, b.handle), type: "f32", shape: a.shape };
}
