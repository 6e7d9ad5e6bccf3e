/**
 * max(x, 0), or its square. Bound by bytes. Source: squared ReLU of Primer (So et al. 2021); ggml.h, ggml_relu and
 * ggml_mul.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface ReluArgs {
  readonly x: CpuTensor; // [numRows, width]
  readonly isSquared: boolean;
}

export function recordRelu(graph: CpuGraph, { x, isSquared }: ReluArgs): CpuTensor {
  expectTensor("relu x", x, ["f32"], [-1, -1]);
  const { base } = graph.ggml;
  const handle = base.relu(graph.claim(), x.handle);
  return { ...x, handle: isSquared ? base.mul(graph.claim(), handle, handle) : handle };
}
