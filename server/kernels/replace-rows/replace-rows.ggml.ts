/**
 * Overwrites rows of a result of the same graph: image embeddings replace token embeddings. Bound by bytes. Source:
 * ggml.h, ggml_set_rows.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface ReplaceRowsArgs {
  readonly x: CpuTensor; // [numRows, width]
  /** [count]; the caller has checked that each is a row of `x`. */
  readonly rows: CpuTensor;
  readonly values: CpuTensor; // [count, width]
}

export function recordReplaceRows(graph: CpuGraph, { x, rows, values }: ReplaceRowsArgs): CpuTensor {
  expectTensor("replaceRows x", x, ["f32"], [-1, -1]);
  expectTensor("replaceRows rows", rows, ["i32"], [-1]);
  expectTensor("replaceRows values", values, ["f32"], [rows.shape[0] ?? 0, x.shape[1] ?? 0]);
  const handle = graph.ggml.base.setRows(graph.claim(), x.handle, values.handle, rows.handle);
  return { handle, type: "f32", shape: x.shape };
}
