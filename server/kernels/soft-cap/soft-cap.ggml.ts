/**
 * cap * tanh(x / cap), for logits. The attention op caps its own scores. Bound by bytes. Source: logit soft-capping
 * (Gemma Team 2024); ggml.h, ggml_scale and ggml_tanh.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface SoftCapArgs {
  readonly x: CpuTensor; // [numRows, width]
  readonly cap: number;
}

export function recordSoftCap(graph: CpuGraph, { x, cap }: SoftCapArgs): CpuTensor {
  expectTensor("softCap x", x, ["f32"], [-1, -1]);
  if (!(cap > 0)) throw new Error(`softCap: expected a cap above zero, got ${cap}`);
  const { base } = graph.ggml;
  const small = base.tanh(graph.claim(), base.scale(graph.claim(), x.handle, 1 / cap));
  return { handle: base.scale(graph.claim(), small, cap), type: "f32", shape: x.shape };
}
