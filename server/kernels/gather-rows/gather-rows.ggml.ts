/**
 * Rows of a table in the order of `ids`, widened to f32: the embedding look-up, and the choice of rows for logits.
 * Bound by bytes. Source: ggml.h, ggml_get_rows.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor, WEIGHT_TYPES } from "../../src/device/cpu/cpu-tensor.ts";

export interface GatherRowsArgs {
  readonly table: CpuTensor; // [numRows, width]
  /** [count]; the caller has checked that each is a row of the table, for ggml aborts on others. */
  readonly ids: CpuTensor;
}

export function recordGatherRows(graph: CpuGraph, { table, ids }: GatherRowsArgs): CpuTensor {
  expectTensor("gatherRows table", table, WEIGHT_TYPES, [-1, -1]);
  expectTensor("gatherRows ids", ids, ["i32"], [-1]);
  const handle = graph.ggml.base.getRows(graph.claim(), table.handle, ids.handle);
  return { handle, type: "f32", shape: [ids.shape[0] ?? 0, table.shape[1] ?? 0] };
}
