/**
 * The weighted sum of the outputs of each token's experts. Bound by bytes. Source: Shazeer et al. 2017; ggml.h,
 * ggml_mul and ggml_add.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface MixExpertsArgs {
  readonly x: CpuTensor; // [numTokens * numChosen, width]
  readonly weights: CpuTensor; // [numTokens, numChosen]
}

/** Tensors that the op adds to the graph for each chosen expert, and besides. */
export const MIX_TENSORS_PER_EXPERT = 2;

/** [numTokens, width] */
export function recordMixExperts(graph: CpuGraph, { x, weights }: MixExpertsArgs): CpuTensor {
  expectTensor("mixExperts weights", weights, ["f32"], [-1, -1]);
  const [numTokens = 0, numChosen = 0] = weights.shape;
  expectTensor("mixExperts x", x, ["f32"], [numTokens * numChosen, -1]);
  const width = x.shape[1] ?? 0;
  const { base } = graph.ggml;
  const factors = base.reshape2d(graph.claim(), weights.handle, 1, numTokens * numChosen);
  const weighted = base.mul(graph.claim(), x.handle, factors);
  const rowBytes = width * 4;
  const rowsOf = (chosen: number): bigint =>
    base.view2d(graph.claim(), weighted, width, numTokens, numChosen * rowBytes, chosen * rowBytes);
  let sum = rowsOf(0);
  for (let chosen = 1; chosen < numChosen; chosen++) sum = base.add(graph.claim(), sum, rowsOf(chosen));
  return { handle: sum, type: "f32", shape: [numTokens, width] };
}
