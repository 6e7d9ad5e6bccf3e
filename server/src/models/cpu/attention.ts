/** The attention of a layer as a list of ops: norms of heads, rotation, the cache, the windows. */
import { type RecordedSpan, recordAttention, recordSpans } from "../../../kernels/attention/attention.ggml.ts";
import { type AttentionSequence, planAttention } from "../../../kernels/attention/attention-span.ts";
import { recordRmsNormHeads } from "../../../kernels/rms-norm-heads/rms-norm-heads.ggml.ts";
import { recordRope } from "../../../kernels/rope/rope.ggml.ts";
import { recordStoreKv } from "../../../kernels/store-kv/store-kv.ggml.ts";
import { expectAt } from "../../core/expect-at.ts";
import type { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import type { DecoderModel, LayerCache } from "./decoder-model.ts";

/** Attention spans of each sequence's queries, for each window of a layer; recorded at the first use. */
export class SpansByWindow {
  readonly #graph: CpuGraph;
  readonly #sequences: readonly AttentionSequence[];
  readonly #blockSize: number;
  readonly #alwaysGathers: boolean;
  readonly #spans = new Map<number | undefined, readonly RecordedSpan[]>();

  constructor(
    graph: CpuGraph,
    { sequences, blockSize }: { readonly sequences: readonly AttentionSequence[]; readonly blockSize: number },
    caches: readonly LayerCache[],
  ) {
    this.#graph = graph;
    this.#sequences = sequences;
    this.#blockSize = blockSize;
    // Gathered rows are widened, and rows of a narrow cache that are read in place are not.
    this.#alwaysGathers = graph.isDeterministic && caches.some(({ keys }) => keys.type !== "f32");
  }

  get(window: number | undefined): readonly RecordedSpan[] {
    const known = this.#spans.get(window);
    if (known !== undefined) return known;
    const options = { window, alwaysGathers: this.#alwaysGathers };
    const plans = this.#sequences.map((sequence) => planAttention(sequence, this.#blockSize, options));
    const recorded = recordSpans(this.#graph, plans);
    this.#spans.set(window, recorded);
    return recorded;
  }
}

/** The positions by which tokens rotate. */
export interface TokenPlaces {
  readonly positions: CpuTensor; // [numTokens]; with axes [4 * numTokens]
  /** Only for models all of whose ropes have sections. */
  readonly hasAxes: boolean;
}

/** Keys after their norms and rotation, and values as they are projected, to the slots of their tokens. */
export function recordStored(
  graph: CpuGraph,
  { config, caches }: DecoderModel,
  index: number,
  { queries, qkv, slots }: { readonly queries: CpuTensor; readonly qkv: CpuTensor; readonly slots: CpuTensor },
): void {
  const { numHeads, numKvHeads, headDim } = config;
  const cache = expectAt(caches, index);
  recordStoreKv(graph, { cache: cache.keys, source: queries, slots, column: numHeads * headDim });
  recordStoreKv(graph, { cache: cache.values, source: qkv, slots, column: (numHeads + numKvHeads) * headDim });
}

/** [numTokens, numHeads * headDim] */
export function recordLayerAttention(
  graph: CpuGraph,
  { config, caches }: DecoderModel,
  index: number,
  queries: CpuTensor,
  spans: SpansByWindow,
): CpuTensor {
  const cache = expectAt(caches, index);
  return recordAttention(graph, {
    q: queries,
    keyCache: cache.keys,
    valueCache: cache.values,
    spans: spans.get(expectAt(config.layers, index).window),
    numHeads: config.numHeads,
    numKvHeads: config.numKvHeads,
    scale: config.attentionScale,
    softCap: config.attentionSoftCap,
  });
}

/**
 * Queries and keys after their norms and rotation, as rows of heads; without either they keep their places in the rows of
 * `qkv`, which are [queries | keys | values].
 */
export function recordRotated(
  graph: CpuGraph,
  { config, weights, ropeMagnitudes }: DecoderModel,
  index: number,
  qkv: CpuTensor,
  { positions, hasAxes }: TokenPlaces,
): CpuTensor {
  const { numHeads, numKvHeads, headDim, norm, layers, ropes } = config;
  const { headNorms } = expectAt(weights.layers, index);
  const { epsilon } = norm;
  const x = headNorms === undefined ? qkv : recordRmsNormHeads(graph, { x: qkv, weight: headNorms, epsilon });
  const [numTokens = 0, width = 0] = x.shape;
  const number = expectAt(layers, index).rope;
  if (number === undefined) return { ...x, shape: [numTokens, width / headDim, headDim] };
  const { theta, numDims, sections } = expectAt(ropes, number);
  return recordRope(graph, {
    x,
    positions,
    sections: hasAxes ? sections : undefined,
    numHeads: numHeads + numKvHeads,
    headDim,
    numDims,
    theta,
    frequencyFactors: weights.ropeDivisors[number],
    magnitude: ropeMagnitudes[number] ?? 1,
  });
}
