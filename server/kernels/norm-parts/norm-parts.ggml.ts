/**
 * Norm of each part of a row by itself: all queries of a token, and all its keys. Bound by bytes. Source: RMSNorm (Zhang
 * and Sennrich 2019), QK-norm of OLMo 2 (OLMo Team 2024); ggml.h, ggml_rms_norm and ggml_concat.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";
import type { Address } from "../../src/native/ffi.ts";

export interface NormPartsArgs {
  readonly x: CpuTensor; // [numTokens, rowWidth], rowWidth at least the sum of `widths`
  readonly weight: CpuTensor; // as many elements as the sum of `widths`
  /** Elements of each part, from the first of a row on. */
  readonly widths: readonly number[];
  readonly epsilon: number;
  readonly kind: "rms" | "layer";
}

/** [numTokens, sum of widths] */
export function recordNormParts(graph: CpuGraph, { x, weight, widths, epsilon, kind }: NormPartsArgs): CpuTensor {
  expectTensor("normParts x", x, ["f32"], [-1, -1]);
  const [numTokens = 0, rowWidth = 0] = x.shape;
  const width = widths.reduce((sum, one) => sum + one, 0);
  const numWeights = weight.shape.reduce((product, size) => product * size, 1);
  if (width > rowWidth || width !== numWeights)
    throw new Error(`normParts: parts of ${width} elements, rows of ${rowWidth} and ${numWeights} weights`);
  const { base } = graph.ggml;
  let first = 0;
  let out: Address | undefined;
  for (const part of widths) {
    const rows = base.view2d(graph.claim(), x.handle, part, numTokens, rowWidth * 4, first * 4);
    const normed =
      kind === "layer" ? base.norm(graph.claim(), rows, epsilon) : base.rmsNorm(graph.claim(), rows, epsilon);
    const weights = base.view1d(graph.claim(), weight.handle, part, first * 4);
    const scaled = base.mul(graph.claim(), normed, weights);
    out = out === undefined ? scaled : base.concat(graph.claim(), out, scaled, 0);
    first += part;
  }
  if (out === undefined) throw new Error("normParts: expected a part");
  return { handle: out, type: "f32", shape: [numTokens, width] };
}
