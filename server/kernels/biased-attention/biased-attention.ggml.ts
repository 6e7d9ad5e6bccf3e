/**
 * Attention of a ragged batch over the paged cache whose scores get a number for each pair of query and key, which flash attention
 * does not take in f32: products, softmax, products. Bound by the bytes of the scores. Source: Raffel et al. 2020 (T5); ggml.h.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { type CpuTensor, expectTensor } from "../../src/device/cpu/cpu-tensor.ts";
import type { RecordedSpan } from "../attention/attention.ggml.ts";

export interface BiasedAttentionArgs {
  /** [numTokens, headsPerRow, headDim]; the queries are the first `numHeads` heads of each row. */
  readonly q: CpuTensor;
  readonly keyCache: CpuTensor; // [numSlots, numKvHeads * headDim]
  readonly valueCache: CpuTensor; // [numSlots, numKvHeads * headDim]
  /** They cover all tokens; their slots are slots of the cache. */
  readonly spans: readonly BiasedSpan[];
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly scale: number;
}

export interface BiasedSpan extends RecordedSpan {
  /** [numHeads, queryLength, numKeys] */
  readonly bias: CpuTensor;
}

/** Tensors that one span adds to the graph in one layer, at most. */
export const BIASED_TENSORS_PER_SPAN = 24;

/** The rows of a table at the buckets of all pairs: [numHeads, queryLength, numKeys]. */
export function recordTableBias(
  graph: CpuGraph,
  { span: { queryLength, numKeys } }: RecordedSpan,
  table: CpuTensor, // [buckets, numHeads]
  buckets: CpuTensor, // [queryLength * numKeys]
): CpuTensor {
  expectTensor("bias table", table, ["f32"], [-1, -1]);
  expectTensor("bias buckets", buckets, ["i32"], [queryLength * numKeys]);
  const [, numHeads = 0] = table.shape;
  const { base } = graph.ggml;
  const rows = base.getRows(graph.claim(), table.handle, buckets.handle);
  const pairs = base.reshape3d(graph.claim(), rows, numHeads, numKeys, queryLength);
  const byHead = base.permute(graph.claim(), pairs, 2, 0, 1, 3);
  const handle = base.cont(graph.claim(), byHead);
  return { handle, type: "f32", shape: [numHeads, queryLength, numKeys] };
}

/** [numTokens, numHeads * headDim] */
export function recordBiasedAttention(graph: CpuGraph, args: BiasedAttentionArgs): CpuTensor {
  checkArgs(args);
  const { q, numHeads, spans } = args;
  const [numTokens = 0, , headDim = 0] = q.shape;
  const { base } = graph.ggml;
  const width = numHeads * headDim;
  const out = graph.empty("f32", [numTokens, width]);
  for (const recorded of spans) {
    const { queryStart, queryLength } = recorded.span;
    const attended = recordSpan(graph, args, recorded);
    const [rowBytes, headBytes] = [width * 4, headDim * 4];
    const view = base.view3d(
      ...([graph.claim(), out.handle, headDim, queryLength, numHeads] as const),
      ...([rowBytes, headBytes, queryStart * rowBytes] as const),
    );
    graph.expand(base.copy(graph.claim(), attended, view));
  }
  return out;
}

/** [numHeads, queryLength, headDim] */
function recordSpan(graph: CpuGraph, args: BiasedAttentionArgs, { span, slots, mask, bias }: BiasedSpan): bigint {
  const { q, numHeads, scale } = args;
  const [, headsPerRow = 0, headDim = 0] = q.shape;
  const { base } = graph.ggml;
  const rowBytes = headsPerRow * headDim * 4;
  const queries = base.view3d(
    ...([graph.claim(), q.handle, headDim, span.queryLength, numHeads] as const),
    ...([rowBytes, headDim * 4, span.queryStart * rowBytes] as const),
  );
  const keys = recordKeys(graph, args, args.keyCache, span, slots);
  const products = base.mulMat(graph.claim(), keys, queries);
  const scaled = scale === 1 ? products : base.scale(graph.claim(), products, scale);
  const scores = base.add(graph.claim(), scaled, bias.handle);
  const shares = base.softMaxExt(graph.claim(), scores, mask?.handle ?? null, 1, 0);
  const values = recordKeys(graph, args, args.valueCache, span, slots);
  const columns = base.cont(graph.claim(), base.transpose(graph.claim(), values));
  return base.mulMat(graph.claim(), columns, shares);
}

function recordKeys(
  graph: CpuGraph,
  { numKvHeads }: BiasedAttentionArgs,
  cache: CpuTensor,
  { keys, numKeys }: RecordedSpan["span"],
  slots: CpuTensor | undefined,
): bigint {
  const { base } = graph.ggml;
  const width = cache.shape[1] ?? 0;
  const headDim = width / numKvHeads;
  const source = slots === undefined ? cache.handle : base.getRows(graph.claim(), cache.handle, slots.handle);
  const offset = keys.kind === "range" ? keys.firstSlot * width * 4 : 0;
  return base.view3d(graph.claim(), source, headDim, numKeys, numKvHeads, width * 4, headDim * 4, offset);
}

function checkArgs({ q, keyCache, valueCache, spans, numHeads, numKvHeads }: BiasedAttentionArgs): void {
  expectTensor("biased attention q", q, ["f32"], [-1, -1, -1]);
  const [numTokens = 0, headsPerRow = 0, headDim = 0] = q.shape;
  expectTensor("biased attention keyCache", keyCache, ["f32", "f16", "q8_0"], [-1, numKvHeads * headDim]);
  expectTensor("biased attention valueCache", valueCache, [keyCache.type], keyCache.shape);
  if (numHeads > headsPerRow || numHeads % numKvHeads !== 0)
    throw new Error(`biased attention: ${numHeads} heads over ${numKvHeads} KV heads in rows of ${headsPerRow}`);
  let covered = 0;
  for (const { span, slots, bias } of spans) {
    const { queryStart, queryLength, numKeys, keys } = span;
    if (queryStart !== covered || queryLength < 1 || numKeys < queryLength)
      throw new Error(`biased attention: a span of ${queryLength} queries at ${queryStart} does not fit`);
    expectTensor("biased attention bias", bias, ["f32"], [numHeads, queryLength, numKeys]);
    covered += queryLength;
    const last = keys.kind === "range" ? keys.firstSlot + numKeys : 0;
    if (last > (keyCache.shape[0] ?? 0)) throw new Error(`biased attention: slot ${last - 1} is outside the cache`);
    // Gathered rows are f32, whatever the cache is.
    if (slots === undefined && keyCache.type !== "f32")
      throw new Error(`biased attention: rows of ${keyCache.type} are gathered, not read in place`);
  }
  if (covered !== numTokens) throw new Error(`biased attention: spans cover ${covered} of ${numTokens} tokens`);
}
