/**
 * Each row times the sigmoid of its gate value: the share of a shared expert in a token. Bound by bytes. Source:
 * ggml.h, ggml_sigmoid and ggml_mul; shared expert of Qwen2-MoE (Yang et al. 2024).
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface GateRowsArgs {
  readonly x: CpuTensor; // [numRows, width]
  readonly gate: CpuTensor; // [numRows, 1]
}

export function recordGateRows(graph: CpuGraph, { x, gate }: GateRowsArgs): CpuTensor {
  expectTensor("gateRows x", x, ["f32"], [-1, -1]);
  expectTensor("gateRows gate", gate, ["f32"], [x.shape[0] ?? 0, 1]);
  const { base } = graph.ggml;
  const share = base.sigmoid(graph.claim(), gate.handle);
  return { handle: base.mul(graph.claim(), x.handle, share), type: "f32", shape: x.shape };
}
