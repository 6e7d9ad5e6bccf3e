/**
 * Writes each token's key or value row to its slot of the KV cache, in the cache's type. Bound by bytes. Source:
 * PagedAttention (Kwon et al. 2023); ggml.h, ggml_set_rows.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface StoreKvArgs {
  readonly cache: CpuTensor; // [numSlots, width]
  readonly source: CpuTensor; // [numTokens, ...], each token's elements side by side
  /** [numTokens]; the caller has checked that each is a slot of the cache, for ggml aborts on others. */
  readonly slots: CpuTensor;
  /** First element of a token's row that is stored. */
  readonly column: number;
}

/** Appends the write to the graph: what is recorded later reads the cache after it. */
export function recordStoreKv(graph: CpuGraph, { cache, source, slots, column }: StoreKvArgs): void {
  const [numTokens = 0, ...rest] = source.shape;
  const sourceWidth = rest.reduce((product, size) => product * size, 1);
  const width = cache.shape[1] ?? 0;
  expectTensor("storeKv cache", cache, ["f32", "f16", "q8_0"], [-1, -1]);
  expectTensor("storeKv slots", slots, ["i32"], [numTokens]);
  if (source.type !== "f32") throw new Error(`storeKv source: expected f32, got ${source.type}`);
  if (column < 0 || column + width > sourceWidth) {
    throw new Error(`storeKv: columns ${column} to ${column + width} exceed rows of ${sourceWidth}`);
  }
  const { base } = graph.ggml;
  const rows = base.view2d(graph.claim(), source.handle, width, numTokens, sourceWidth * 4, column * 4);
  graph.expand(base.setRows(graph.claim(), cache.handle, rows, slots.handle));
}
