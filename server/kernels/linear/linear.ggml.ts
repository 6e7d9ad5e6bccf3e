/**
 * y = x . weight^T + bias. With an f32 weight all is f32. With f16 or bf16 weights ggml rounds the rows of `x` to the
 * weight's type too. With block types it rounds them to 8 bits that share a scale, which costs accuracy and saves
 * memory traffic. Bound by the bytes of the weight for few rows, by FLOP for many.
 *
 * ggml multiplies several rows in tiles, whose sums run in another order than the sums of one row. On a deterministic
 * device each row is a matrix of its own, by which the weight is broadcast: its outputs are dot products whatever is
 * beside it. Source: ggml.h, ggml_mul_mat.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor, WEIGHT_TYPES } from "../../src/device/cpu/cpu-tensor.ts";
import type { Address } from "../../src/native/ffi.ts";

export interface LinearArgs {
  readonly x: CpuTensor; // [numRows, inputs]
  readonly weight: CpuTensor; // [outputs, inputs]
  readonly bias?: CpuTensor | undefined; // [outputs]
}

export function recordLinear(graph: CpuGraph, { x, weight, bias }: LinearArgs): CpuTensor {
  expectTensor("linear x", x, ["f32"], [-1, -1]);
  expectTensor("linear weight", weight, WEIGHT_TYPES, [-1, x.shape[1] ?? 0]);
  graph.onGemm?.(weight, x);
  const { base } = graph.ggml;
  const shape = [x.shape[0] ?? 0, weight.shape[0] ?? 0];
  const product = graph.isDeterministic ? recordRows(graph, x, weight) : graph.recordGemm(weight, x);
  if (bias === undefined) return { handle: product, type: "f32", shape };
  expectTensor("linear bias", bias, ["f32"], [weight.shape[0] ?? 0]);
  return { handle: base.add(graph.claim(), product, bias.handle), type: "f32", shape };
}

function recordRows(graph: CpuGraph, x: CpuTensor, weight: CpuTensor): Address {
  const { base } = graph.ggml;
  const [numRows = 0, inputs = 0] = x.shape;
  const rows = base.reshape3d(graph.claim(), x.handle, inputs, 1, numRows);
  return base.reshape2d(graph.claim(), base.mulMat(graph.claim(), weight.handle, rows), weight.shape[0] ?? 0, numRows);
}
