/**
 * Numbers that positions add to the scores of attention: products of queries with the keys of positions, and of keys with the queries of
 * positions, each at the distance of the pair. Bound by the bytes of the scores. Source: He et al. 2021 (DeBERTa), equation 4; ggml.h.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";

export interface DisentangledBiasArgs {
  /** [numTokens, rowWidth]: rows of queries, keys and what follows, all heads of each side by side. */
  readonly qkv: CpuTensor;
  /** [numRows, rowWidth] the same of the positions' rows. */
  readonly positions: CpuTensor;
  readonly numHeads: number;
  readonly headDim: number;
  /** The tokens of one text. */
  readonly first: number;
  readonly count: number;
  /** [count * count] row of `positions` for each pair, plus `numRows` times the query, or times the key. */
  readonly byQuery: CpuTensor;
  readonly byKey: CpuTensor;
  readonly scale: number;
}

/** Tensors that one text adds to the graph in one layer, at most. */
export const DISENTANGLED_TENSORS_PER_SPAN = 24;

/** [numHeads, count, count] */
export function recordDisentangledBias(graph: CpuGraph, args: DisentangledBiasArgs): CpuTensor {
  const { qkv, positions, numHeads, headDim, first, count, byQuery, byKey, scale } = args;
  const [, rowWidth = 0] = qkv.shape;
  expectTensor("disentangled bias qkv", qkv, ["f32"], [-1, -1]);
  expectTensor("disentangled bias positions", positions, ["f32"], [-1, rowWidth]);
  for (const ids of [byQuery, byKey]) expectTensor("disentangled bias rows", ids, ["i32"], [count * count]);
  const width = numHeads * headDim;
  if (2 * width > rowWidth || first + count > (qkv.shape[0] ?? 0))
    throw new Error(`disentangled bias: ${count} tokens at ${first} of ${numHeads} heads do not fit`);
  const { base } = graph.ggml;
  const heads = (from: CpuTensor, row: number, rows: number, column: number): bigint =>
    base.view3d(
      ...([graph.claim(), from.handle, headDim, rows, numHeads] as const),
      ...([rowWidth * 4, headDim * 4, (row * rowWidth + column) * 4] as const),
    );
  const [numRows = 0] = positions.shape;
  const [positionQueries, positionKeys] = [heads(positions, 0, numRows, 0), heads(positions, 0, numRows, width)];
  const ofQueries = gather(graph, base.mulMat(graph.claim(), positionKeys, heads(qkv, first, count, 0)), byQuery, args);
  const ofKeys = gather(
    graph,
    base.mulMat(graph.claim(), positionQueries, heads(qkv, first, count, width)),
    byKey,
    args,
  );
  const sum = base.scale(graph.claim(), base.add(graph.claim(), ofQueries, ofKeys), scale);
  const pairs = base.reshape3d(graph.claim(), sum, numHeads, count, count);
  const handle = base.cont(graph.claim(), base.permute(graph.claim(), pairs, 2, 0, 1, 3));
  return { handle, type: "f32", shape: [numHeads, count, count] };
}

/** Products [numRows, tokens, heads] at a row for each pair: [heads, pairs]. */
function gather(
  graph: CpuGraph,
  products: bigint,
  ids: CpuTensor,
  { positions, numHeads, count }: DisentangledBiasArgs,
): bigint {
  const { base } = graph.ggml;
  const byPair = base.cont(graph.claim(), base.permute(graph.claim(), products, 1, 2, 0, 3));
  const rows = base.reshape2d(graph.claim(), byPair, numHeads, (positions.shape[0] ?? 0) * count);
  return base.getRows(graph.claim(), rows, ids.handle);
}
