/**
 * Each head of each token times a factor of its own: the temperature of attention, by the position of the query. Bound by
 * bytes. Source: ggml.h, ggml_mul; Llama 4 (Meta 2025), "attention temperature tuning".
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface ScaleHeadsArgs {
  readonly x: CpuTensor; // [numTokens, numHeads, headDim], or more heads behind those that are read
  readonly factors: CpuTensor; // [numTokens, number of factors], for the first heads
}

/** [numTokens, number of factors, headDim] */
export function recordScaleHeads(graph: CpuGraph, { x, factors }: ScaleHeadsArgs): CpuTensor {
  expectTensor("scaleHeads x", x, ["f32"], [-1, -1, -1]);
  const [numTokens = 0, numHeads = 0, headDim = 0] = x.shape;
  expectTensor("scaleHeads factors", factors, ["f32"], [numTokens, -1]);
  const count = factors.shape[1] ?? 0;
  if (count > numHeads) throw new Error(`scaleHeads: ${count} factors for ${numHeads} heads`);
  const { base } = graph.ggml;
  const [headBytes, rowBytes] = [headDim * 4, numHeads * headDim * 4];
  const heads = base.view3d(graph.claim(), x.handle, headDim, count, numTokens, headBytes, rowBytes, 0);
  const each = base.reshape3d(graph.claim(), factors.handle, 1, count, numTokens);
  const handle = base.mul(graph.claim(), heads, each);
  return { handle, type: "f32", shape: [numTokens, count, headDim] };
}
