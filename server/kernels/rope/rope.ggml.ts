/**
 * Rotary positions on the first `numHeads` heads of each row, in the "half" layout. Queries and keys lie side by side in
 * the rows of one projection, so one node turns both.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface RopeArgs {
  readonly x: CpuTensor; // [numTokens, rowWidth], rowWidth >= numHeads * headDim
  readonly positions: CpuTensor; // [numTokens]
  readonly numHeads: number;
  readonly headDim: number;
  readonly theta: number;
  readonly frequencyFactors?: CpuTensor | undefined; // [headDim / 2], each divides its frequency
}

/** ggml's name for the layout in which element i turns with element i + headDim / 2. */
const MODE_NEOX = 2;

/** [numTokens, numHeads, headDim] */
export function recordRope(graph: CpuGraph, args: RopeArgs): CpuTensor {
  const { x, positions, numHeads, headDim, theta, frequencyFactors } = args;
  const [numTokens = 0, rowWidth = 0] = x.shape;
  expectTensor("rope x", x, ["f32"], [-1, -1]);
  expectTensor("rope positions", positions, ["i32"], [numTokens]);
  if (headDim % 2 !== 0) throw new Error(`rope: expected an even head, got ${headDim}`);
  if (numHeads * headDim > rowWidth)
    throw new Error(`rope: ${numHeads} heads of ${headDim} exceed rows of ${rowWidth}`);
  if (frequencyFactors !== undefined) expectTensor("rope factors", frequencyFactors, ["f32"], [headDim / 2]);
  const { base } = graph.ggml;
  const heads = base.view3d(graph.claim(), x.handle, headDim, numHeads, numTokens, headDim * 4, rowWidth * 4, 0);
  const factors = frequencyFactors?.handle ?? null;
  // The zeros and ones after `theta` switch YaRN off.
  const handle = base.ropeExt(
    graph.claim(),
    heads,
    positions.handle,
    factors,
    headDim,
    MODE_NEOX,
    0,
    theta,
    1,
    0,
    1,
    0,
    0,
  );
  return { handle, type: "f32", shape: [numTokens, numHeads, headDim] };
}
