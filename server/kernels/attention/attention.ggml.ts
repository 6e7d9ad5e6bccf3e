/**
 * Causal attention of a ragged batch over the paged cache: one flash-attention node per sequence. It reads the cache in
 * place when a sequence's blocks are contiguous, and gathers them first when they are not. Bound by the bytes of keys
 * and values in decode, by FLOP in prefill. Source: ggml.h, ggml_flash_attn_ext; PagedAttention (Kwon et al. 2023).
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { CPU_TYPE_BYTES, type CpuTensor, expectTensor, expectWholeBlocks } from "../../src/device/cpu/cpu-tensor.ts";
import type { AttentionSpan } from "./attention-span.ts";

/** A span whose slots and mask have entered the graph; all layers share them. */
export interface RecordedSpan {
  readonly span: AttentionSpan;
  readonly slots: CpuTensor | undefined;
  readonly mask: CpuTensor | undefined;
}

export interface AttentionArgs {
  /** [numTokens, headsPerRow, headDim]; the queries are the first `numHeads` heads of each row. */
  readonly q: CpuTensor;
  readonly keyCache: CpuTensor; // [numSlots, numKvHeads * headDim]
  readonly valueCache: CpuTensor; // [numSlots, numKvHeads * headDim]
  /** Elements of a head of the value cache that are read, from the first on; absent: all. */
  readonly valueDims?: number | undefined;
  /** They cover all tokens; the caller has checked that their slots are slots of the cache. */
  readonly spans: readonly RecordedSpan[];
  readonly numHeads: number;
  readonly numKvHeads: number;
  /** Scale of the products of queries and keys. */
  readonly scale: number;
  /** Scores s become cap * tanh(s / cap); undefined for none. */
  readonly softCap: number | undefined;
  /** [numHeads]: a logit of each head that takes a share of its softmax; absent: none. */
  readonly sinks?: CpuTensor | undefined;
  /** The masks of the spans are distances, which each head multiplies by its slope (ALiBi, Press et al. 2022). */
  readonly hasAlibi?: boolean | undefined;
}

export function recordSpans(graph: CpuGraph, spans: readonly AttentionSpan[]): RecordedSpan[] {
  return spans.map((span) => ({
    span,
    slots: span.keys.kind === "gather" ? graph.input("i32", [span.numKeys], span.keys.slots) : undefined,
    mask: span.mask && graph.input("f16", [span.queryLength, span.numKeys], span.mask),
  }));
}

/** [numTokens, numHeads * headDim], or of `valueDims` in place of it */
export function recordAttention(graph: CpuGraph, args: AttentionArgs): CpuTensor {
  checkArgs(args);
  const { base } = graph.ggml;
  const [numTokens = 0, , headDim = 0] = args.q.shape;
  const width = args.numHeads * (args.valueDims ?? headDim);
  const [only] = args.spans;
  if (only !== undefined && args.spans.length === 1) {
    const handle = base.reshape2d(graph.claim(), recordSpan(graph, args, only), width, numTokens);
    return { handle, type: "f32", shape: [numTokens, width] };
  }
  const out = graph.empty("f32", [numTokens, width]);
  for (const recorded of args.spans) {
    const { queryStart, queryLength } = recorded.span;
    const result = recordSpan(graph, args, recorded);
    const rows = base.view2d(graph.claim(), out.handle, width, queryLength, width * 4, queryStart * width * 4);
    graph.expand(base.copy(graph.claim(), result, rows));
  }
  return out;
}

/** Tensors that one span adds to the graph in one layer, at most; for sizing the graph. */
export const ATTENTION_TENSORS_PER_SPAN = 8;

/** The slope of head h of n is 2^(-8 (h + 1) / n), with ggml's rule where n is no power of two. */
const MAX_ALIBI_BIAS = 8;

function recordSpan(graph: CpuGraph, args: AttentionArgs, { span, slots, mask }: RecordedSpan): bigint {
  const { q, numHeads, scale, softCap } = args;
  const [, headsPerRow = 0, headDim = 0] = q.shape;
  const { base } = graph.ggml;
  const rowBytes = headsPerRow * headDim * 4;
  const offset = span.queryStart * rowBytes;
  // Seen as [numHeads, queryLength, headDim], the order in which flash attention wants queries and keys.
  const queries = base.view3d(
    graph.claim(),
    q.handle,
    headDim,
    span.queryLength,
    numHeads,
    rowBytes,
    headDim * 4,
    offset,
  );
  const keys = recordKeys(graph, args, args.keyCache, span, slots);
  const values = recordKeys(graph, args, args.valueCache, span, slots, args.valueDims);
  const maxBias = args.hasAlibi === true ? MAX_ALIBI_BIAS : 0;
  const { sinks } = args;
  const attended = base.flashAttention(
    ...([graph.claim(), queries, keys, values, mask?.handle ?? null] as const),
    ...([scale, maxBias, softCap ?? 0] as const),
  );
  if (sinks !== undefined) base.addSinks(attended, sinks.handle);
  return attended;
}

function recordKeys(
  graph: CpuGraph,
  { numKvHeads }: AttentionArgs,
  cache: CpuTensor,
  { keys, numKeys }: AttentionSpan,
  slots: CpuTensor | undefined,
  dims?: number,
): bigint {
  const { base } = graph.ggml;
  const width = cache.shape[1] ?? 0;
  const headDim = width / numKvHeads;
  const gathered = slots === undefined ? undefined : base.getRows(graph.claim(), cache.handle, slots.handle);
  // Gathered rows are f32, whatever the cache is.
  const elementBytes = gathered === undefined ? CPU_TYPE_BYTES[cache.type] : 4;
  const rowBytes = width * elementBytes;
  const offset = keys.kind === "range" ? keys.firstSlot * rowBytes : 0;
  const source = gathered ?? cache.handle;
  const headBytes = headDim * elementBytes;
  return base.view3d(graph.claim(), source, dims ?? headDim, numKeys, numKvHeads, rowBytes, headBytes, offset);
}

function checkArgs({ q, keyCache, valueCache, spans, numHeads, numKvHeads, sinks }: AttentionArgs): void {
  if (sinks !== undefined) expectTensor("attention sinks", sinks, ["f32"], [numHeads]);
  expectTensor("attention q", q, ["f32"], [-1, -1, -1]);
  const [numTokens = 0, headsPerRow = 0, headDim = 0] = q.shape;
  const width = numKvHeads * headDim;
  expectTensor("attention keyCache", keyCache, ["f32", "f16", "q8_0"], [-1, width]);
  expectWholeBlocks(keyCache.type, [headDim]);
  expectTensor("attention valueCache", valueCache, [keyCache.type], keyCache.shape);
  if (numHeads > headsPerRow || numHeads % numKvHeads !== 0) {
    throw new Error(`attention: ${numHeads} heads over ${numKvHeads} KV heads in rows of ${headsPerRow}`);
  }
  let covered = 0;
  for (const { span } of spans) {
    if (span.queryStart !== covered || span.queryLength < 1 || span.numKeys < span.queryLength) {
      throw new Error(`attention: a span of ${span.queryLength} queries at ${span.queryStart} does not fit`);
    }
    covered += span.queryLength;
    const last = span.keys.kind === "range" ? span.keys.firstSlot + span.numKeys : 0;
    if (last > (keyCache.shape[0] ?? 0)) throw new Error(`attention: slot ${last - 1} is outside the cache`);
  }
  if (covered !== numTokens) throw new Error(`attention: spans cover ${covered} of ${numTokens} tokens`);
}
