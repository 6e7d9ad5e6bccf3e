/**
 * gate * sigmoid(alpha * gate) * (up + 1), the gate at most a limit and the other within it, from rows of [gate | up].
 * Bound by bytes. Source: gpt-oss model card (OpenAI 2025); ggml.h, ggml_swiglu_oai.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface ClampedSwigluArgs {
  readonly gateUp: CpuTensor; // [numRows, 2 * width]
  readonly alpha: number;
  readonly limit: number;
}

/** [numRows, width] */
export function recordClampedSwiglu(graph: CpuGraph, { gateUp, alpha, limit }: ClampedSwigluArgs): CpuTensor {
  expectTensor("clampedSwiglu gateUp", gateUp, ["f32"], [-1, -1]);
  const [numRows = 0, columns = 0] = gateUp.shape;
  if (columns % 2 !== 0) throw new Error(`clampedSwiglu gateUp: expected an even width, got ${columns}`);
  const { base } = graph.ggml;
  const width = columns / 2;
  const half = (first: number): bigint =>
    base.view2d(graph.claim(), gateUp.handle, width, numRows, columns * 4, first * 4);
  const handle = base.swigluOai(graph.claim(), half(0), half(width), alpha, limit);
  return { handle, type: "f32", shape: [numRows, width] };
}
