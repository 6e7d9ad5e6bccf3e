/**
 * LayerNorm with a weight and, in most models, a bias per column. Bound by bytes. Source: LayerNorm (Ba et al. 2016);
 * ggml.h, ggml_norm.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface LayerNormArgs {
  readonly x: CpuTensor; // [numRows, width]
  readonly weight: CpuTensor; // [width]
  readonly bias?: CpuTensor | undefined; // [width]
  readonly epsilon: number;
}

export function recordLayerNorm(graph: CpuGraph, { x, weight, bias, epsilon }: LayerNormArgs): CpuTensor {
  const width = x.shape[1] ?? 0;
  expectTensor("layerNorm x", x, ["f32"], [-1, -1]);
  expectTensor("layerNorm weight", weight, ["f32"], [width]);
  const { base } = graph.ggml;
  const normed = base.norm(graph.claim(), x.handle, epsilon);
  const scaled = base.mul(graph.claim(), normed, weight.handle);
  if (bias === undefined) return { handle: scaled, type: "f32", shape: x.shape };
  expectTensor("layerNorm bias", bias, ["f32"], [width]);
  return { handle: base.add(graph.claim(), scaled, bias.handle), type: "f32", shape: x.shape };
}
