/**
 * Adds the change of an adapter to the result of a linear layer, for the rows that carry it: y += b . (a . x). Other
 * rows are neither read nor written. The result is `y` itself, written in place, which keeps the order and frees memory
 * early. Source: LoRA (Hu et al. 2021); ggml.h, ggml_mul_mat and ggml_acc_inplace.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";
import { recordLinear } from "../linear/linear.ggml.ts";

export interface LoraPart {
  readonly a: CpuTensor; // [rank, inputs]
  readonly b: CpuTensor; // [outputs, rank], the scale in it
  /** First column of the outputs in `y`. */
  readonly column: number;
}

/** The ids of scattered rows have entered the graph; the caller vouches that each is a row, and there once. */
export type RecordedRows =
  | { readonly kind: "range"; readonly first: number; readonly count: number }
  | { readonly kind: "scattered"; readonly ids: CpuTensor };

export interface LoraArgs {
  readonly x: CpuTensor; // [numRows, inputs]
  readonly y: CpuTensor; // [numRows, width]
  readonly rows: RecordedRows;
  readonly parts: readonly LoraPart[];
}

const F32_BYTES = 4;
/** Graph tensors of one part, and of the rows of one linear layer, at most. */
export const LORA_TENSORS_PER_PART = 7;
export const LORA_TENSORS_PER_LINEAR = 4;

/** [numRows, width] */
export function recordLora(graph: CpuGraph, { x, y, rows, parts }: LoraArgs): CpuTensor {
  const [numRows = 0, inputs = 0] = x.shape;
  expectTensor("lora x", x, ["f32"], [-1, -1]);
  expectTensor("lora y", y, ["f32"], [numRows, -1]);
  if (rows.kind === "range") {
    if (rows.first < 0 || rows.count < 1 || rows.first + rows.count > numRows)
      throw new Error(`lora: rows ${rows.first} to ${rows.first + rows.count - 1} of ${numRows}`);
    return addParts(graph, viewRows(graph, x, inputs, rows), y, rows.first, parts);
  }
  expectTensor("lora ids", rows.ids, ["i32"], [-1]);
  const own = addParts(graph, gather(graph, x, rows.ids), gather(graph, y, rows.ids), 0, parts);
  const handle = graph.ggml.base.setRows(graph.claim(), y.handle, own.handle, rows.ids.handle);
  return { ...y, handle };
}

/** `x` holds the rows alone, which are those of `y` from `firstRow` on. */
function addParts(
  graph: CpuGraph,
  x: CpuTensor,
  y: CpuTensor,
  firstRow: number,
  parts: readonly LoraPart[],
): CpuTensor {
  const width = y.shape[1] ?? 0;
  const rowBytes = width * F32_BYTES;
  let { handle } = y;
  for (const { a, b, column } of parts) {
    expectTensor("lora a", a, ["f32", "f16", "bf16"], [-1, x.shape[1] ?? 0]);
    expectTensor("lora b", b, [a.type], [-1, a.shape[0] ?? 0]);
    const outputs = b.shape[0] ?? 0;
    if (column < 0 || column + outputs > width)
      throw new Error(`lora b: ${outputs} outputs from column ${column} on, of ${width}`);
    const delta = recordLinear(graph, { x: recordLinear(graph, { x, weight: a }), weight: b });
    const offset = firstRow * rowBytes + column * F32_BYTES;
    const planeBytes = rowBytes * (y.shape[0] ?? 0);
    const { base } = graph.ggml;
    handle = base.accInplace(graph.claim(), handle, delta.handle, rowBytes, planeBytes, planeBytes, offset);
  }
  return { ...y, handle };
}

function viewRows(
  graph: CpuGraph,
  x: CpuTensor,
  inputs: number,
  { first, count }: RecordedRows & { readonly kind: "range" },
): CpuTensor {
  if (count === x.shape[0]) return x;
  const rowBytes = inputs * F32_BYTES;
  const handle = graph.ggml.base.view2d(graph.claim(), x.handle, inputs, count, rowBytes, first * rowBytes);
  return { handle, type: "f32", shape: [count, inputs] };
}

function gather(graph: CpuGraph, table: CpuTensor, ids: CpuTensor): CpuTensor {
  const handle = graph.ggml.base.getRows(graph.claim(), table.handle, ids.handle);
  return { handle, type: "f32", shape: [ids.shape[0] ?? 0, table.shape[1] ?? 0] };
}
