/**
 * y = x . weight^T + bias. With an f32 weight all is f32; with f16 or bf16 weights ggml rounds the rows of `x` to the
 * weight's type too, and with block types to 8 bits that share a scale, which costs accuracy and saves memory traffic.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor, WEIGHT_TYPES } from "../../src/device/cpu/cpu-tensor.ts";

export interface LinearArgs {
  readonly x: CpuTensor; // [numRows, inputs]
  readonly weight: CpuTensor; // [outputs, inputs]
  readonly bias?: CpuTensor | undefined; // [outputs]
}

export function recordLinear(graph: CpuGraph, { x, weight, bias }: LinearArgs): CpuTensor {
  expectTensor("linear x", x, ["f32"], [-1, -1]);
  expectTensor("linear weight", weight, WEIGHT_TYPES, [-1, x.shape[1] ?? 0]);
  const { base } = graph.ggml;
  const shape = [x.shape[0] ?? 0, weight.shape[0] ?? 0];
  const product = base.mulMat(graph.claim(), weight.handle, x.handle);
  if (bias === undefined) return { handle: product, type: "f32", shape };
  expectTensor("linear bias", bias, ["f32"], [weight.shape[0] ?? 0]);
  return { handle: base.add(graph.claim(), product, bias.handle), type: "f32", shape };
}
