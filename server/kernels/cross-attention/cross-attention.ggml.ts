/**
 * Attention of each sequence's rows to the keys and values of its encoder, which lie in memory of their own: one flash-attention
 * node a sequence. Bound by the bytes of keys and values in decode. Source: Vaswani et al. 2017, section 3.2.3; ggml.h,
 * ggml_flash_attn_ext.
 */
import type { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { CPU_TYPE_BYTES, type CpuTensor, expectTensor, expectWholeBlocks } from "../../src/device/cpu/cpu-tensor.ts";

export interface CrossAttentionArgs {
  readonly q: CpuTensor; // [numTokens, numHeads * headDim]
  /** They cover all tokens. */
  readonly spans: readonly CrossSpan[];
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly scale: number;
}

/** The rows of one sequence, and what its encoder left. */
export interface CrossSpan {
  readonly queryStart: number;
  readonly queryLength: number;
  readonly keys: CpuTensor; // [numKeys, numKvHeads * headDim]
  readonly values: CpuTensor; // [numKeys, numKvHeads * headDim]
}

/** Tensors that one span adds to the graph in one layer, at most. */
export const CROSS_TENSORS_PER_SPAN = 8;

/** [numTokens, numHeads * headDim] */
export function recordCrossAttention(graph: CpuGraph, args: CrossAttentionArgs): CpuTensor {
  checkArgs(args);
  const { q, spans } = args;
  const [numTokens = 0, width = 0] = q.shape;
  const { base } = graph.ggml;
  const [only] = spans;
  if (only !== undefined && spans.length === 1) {
    const handle = base.reshape2d(graph.claim(), recordSpan(graph, args, only), width, numTokens);
    return { handle, type: "f32", shape: [numTokens, width] };
  }
  const out = graph.empty("f32", [numTokens, width]);
  for (const span of spans) {
    const attended = recordSpan(graph, args, span);
    const offset = span.queryStart * width * 4;
    const rows = base.view2d(graph.claim(), out.handle, width, span.queryLength, width * 4, offset);
    graph.expand(base.copy(graph.claim(), attended, rows));
  }
  return out;
}

function recordSpan(graph: CpuGraph, { q, numHeads, numKvHeads, scale }: CrossAttentionArgs, span: CrossSpan): bigint {
  const { base } = graph.ggml;
  const [, width = 0] = q.shape;
  const headDim = width / numHeads;
  const { queryStart, queryLength } = span;
  const queries = base.view3d(
    ...([graph.claim(), q.handle, headDim, queryLength, numHeads] as const),
    ...([width * 4, headDim * 4, queryStart * width * 4] as const),
  );
  const memory = ({ handle, type, shape: [numKeys = 0, kvWidth = 0] }: CpuTensor): bigint => {
    const bytes = CPU_TYPE_BYTES[type];
    return base.view3d(graph.claim(), handle, headDim, numKeys, numKvHeads, kvWidth * bytes, headDim * bytes, 0);
  };
  return base.flashAttention(
    ...([graph.claim(), queries, memory(span.keys), memory(span.values), null] as const),
    ...([scale, 0, 0] as const),
  );
}

function checkArgs({ q, spans, numHeads, numKvHeads }: CrossAttentionArgs): void {
  expectTensor("cross attention q", q, ["f32"], [-1, -1]);
  const [numTokens = 0, width = 0] = q.shape;
  if (width % numHeads !== 0 || numHeads % numKvHeads !== 0)
    throw new Error(`cross attention: ${numHeads} heads over ${numKvHeads} KV heads in rows of ${width}`);
  const headDim = width / numHeads;
  let covered = 0;
  for (const { queryStart, queryLength, keys, values } of spans) {
    if (queryStart !== covered || queryLength < 1)
      throw new Error(`cross attention: a span of ${queryLength} queries at ${queryStart} does not fit`);
    covered += queryLength;
    expectTensor("cross attention keys", keys, ["f32", "f16", "q8_0"], [-1, numKvHeads * headDim]);
    expectWholeBlocks(keys.type, [headDim]);
    expectTensor("cross attention values", values, [keys.type], keys.shape);
  }
  if (covered !== numTokens) throw new Error(`cross attention: spans cover ${covered} of ${numTokens} tokens`);
}
