/**
 * RMSNorm of each of the first heads of a row. Queries and keys are adjacent, so one node normalizes both: the weight
 * has a row for each head. Bound by bytes. Source: RMSNorm (Zhang and Sennrich 2019), query-key normalization (Henry et
 * al. 2020); ggml.h, ggml_rms_norm.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface RmsNormHeadsArgs {
  readonly x: CpuTensor; // [numTokens, rowWidth], rowWidth >= numHeads * headDim
  readonly weight: CpuTensor | HeadShape; // [numHeads, headDim]
  readonly epsilon: number;
  /** First element of a row that is read; absent: 0. */
  readonly column?: number;
  /** "layer" subtracts the mean too. Absent: "rms". */
  readonly kind?: "rms" | "layer" | undefined;
}

/** Heads that have no weights. */
export interface HeadShape {
  readonly numHeads: number;
  readonly headDim: number;
}

/** [numTokens, numHeads * headDim] */
export function recordRmsNormHeads(
  graph: CpuGraph,
  { x, weight, epsilon, kind, column = 0 }: RmsNormHeadsArgs,
): CpuTensor {
  expectTensor("rmsNormHeads x", x, ["f32"], [-1, -1]);
  const hasWeights = "handle" in weight;
  if (hasWeights) expectTensor("rmsNormHeads weight", weight, ["f32"], [-1, -1]);
  const [numTokens = 0, rowWidth = 0] = x.shape;
  const [numHeads = 0, headDim = 0] = hasWeights ? weight.shape : [weight.numHeads, weight.headDim];
  if (column + numHeads * headDim > rowWidth)
    throw new Error(`rmsNormHeads: ${numHeads} heads of ${headDim} exceed rows of ${rowWidth}`);
  const { base } = graph.ggml;
  const heads = base.view3d(
    graph.claim(),
    x.handle,
    headDim,
    numHeads,
    numTokens,
    headDim * 4,
    rowWidth * 4,
    column * 4,
  );
  const normed =
    kind === "layer" ? base.norm(graph.claim(), heads, epsilon) : base.rmsNorm(graph.claim(), heads, epsilon);
  const handle = hasWeights ? base.mul(graph.claim(), normed, weight.handle) : normed;
  return { handle, type: "f32", shape: [numTokens, numHeads * headDim] };
}
