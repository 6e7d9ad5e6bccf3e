/**
 * gelu(gate) * up in f32, from one projection whose rows hold the gate columns, then the up columns. Bound by bytes.
 * Source: GeGLU (Shazeer 2020); ggml.h, ggml_geglu_erf and ggml_swiglu_split.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";
import { recordTanhTerms } from "../gelu/gelu.ggml.ts";

export interface GeluMulArgs {
  readonly gateUp: CpuTensor; // [numRows, 2 * width]
  readonly form: "tanh" | "erf";
}

/** [numRows, width] */
export function recordGeluMul(graph: CpuGraph, { gateUp, form }: GeluMulArgs): CpuTensor {
  expectTensor("geluMul gateUp", gateUp, ["f32"], [-1, -1]);
  const [numRows = 0, columns = 0] = gateUp.shape;
  if (columns % 2 !== 0) throw new Error(`geluMul gateUp: expected an even width, got ${columns}`);
  const width = columns / 2;
  const shape = [numRows, width];
  const { base } = graph.ggml;
  if (form === "erf") return { handle: base.gegluErf(graph.claim(), gateUp.handle), type: "f32", shape };
  const half = (column: number): bigint =>
    base.view2d(graph.claim(), gateUp.handle, width, numRows, columns * 4, column * 4);
  const { z, w } = recordTanhTerms(graph, half(0));
  const product = base.swigluSplit(graph.claim(), z, half(width));
  return { handle: base.div(graph.claim(), product, w), type: "f32", shape };
}
