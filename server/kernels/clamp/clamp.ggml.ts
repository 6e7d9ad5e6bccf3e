/**
 * Every element within plus and minus a limit: queries, keys and values of models that clip them. Bound by bytes. Source:
 * ggml.h, ggml_clamp; `clip_qkv` of MPT (MosaicML 2023) and OLMo (Groeneveld et al. 2024).
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface ClampArgs {
  readonly x: CpuTensor; // [numRows, width]
  readonly limit: number;
}

export function recordClamp(graph: CpuGraph, { x, limit }: ClampArgs): CpuTensor {
  expectTensor("clamp x", x, ["f32"], [-1, -1]);
  if (!(limit > 0)) throw new Error(`clamp: expected a limit above zero, got ${limit}`);
  const { base } = graph.ggml;
  // ggml clamps in place, and others may read `x` later.
  const copy = base.scale(graph.claim(), x.handle, 1);
  return { ...x, handle: base.clamp(graph.claim(), copy, -limit, limit) };
}
