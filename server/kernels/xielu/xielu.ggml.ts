/**
 * xIELU, whose parameters are tensors of a layer: a square for positive elements, exp(x) - 1 - x for the others, and a part of x
 * itself. Bound by bytes. Source: Huang and Schlag 2024 (arXiv 2411.13010), section 3; ggml.h, ggml_elu and ggml_softplus.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface XieluArgs {
  readonly x: CpuTensor; // [numRows, width]
  /** Before softplus. */
  readonly positive: CpuTensor; // [1]
  readonly negative: CpuTensor; // [1]
  readonly linear: CpuTensor; // [1]
}

/** [numRows, width] */
export function recordXielu(graph: CpuGraph, { x, positive, negative, linear }: XieluArgs): CpuTensor {
  expectTensor("xielu x", x, ["f32"], [-1, -1]);
  for (const one of [positive, negative, linear]) expectTensor("xielu parameter", one, ["f32"], [1]);
  const { base } = graph.ggml;
  const right = base.softplus(graph.claim(), positive.handle);
  const left = base.add(graph.claim(), base.softplus(graph.claim(), negative.handle), linear.handle);
  const above = base.relu(graph.claim(), x.handle);
  // x - relu(x); ggml's difference needs a function of its own.
  const below = base.add(graph.claim(), x.handle, base.scale(graph.claim(), above, -1));
  const squares = base.mul(graph.claim(), base.mul(graph.claim(), above, above), right);
  const bent = base.add(graph.claim(), base.elu(graph.claim(), below), base.scale(graph.claim(), below, -1));
  const curved = base.add(graph.claim(), squares, base.mul(graph.claim(), bent, left));
  const handle = base.add(graph.claim(), curved, base.mul(graph.claim(), x.handle, linear.handle));
  return { handle, type: "f32", shape: x.shape };
}
