/** Each row times the sigmoid of its own number: how much of a shared expert a token takes. */
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
