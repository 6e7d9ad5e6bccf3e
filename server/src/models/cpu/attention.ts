/** The attention of a layer as a list of ops: norms of heads, rotation, the cache, the windows. */
import { type RecordedSpan, recordAttention, recordSpans } from "../../../kernels/attention/attention.ggml.ts";
import {
  type AttentionOptions,
  type AttentionSequence,
  planAttention,
} from "../../../kernels/attention/attention-span.ts";
import {
  type BiasedSpan,
  recordBiasedAttention,
  recordTableBias,
} from "../../../kernels/biased-attention/biased-attention.ggml.ts";
import { bucketsOf } from "../../../kernels/biased-attention/distance-buckets.ts";
import { recordClamp } from "../../../kernels/clamp/clamp.ggml.ts";
import { recordNormParts } from "../../../kernels/norm-parts/norm-parts.ggml.ts";
import { recordRmsNormHeads } from "../../../kernels/rms-norm-heads/rms-norm-heads.ggml.ts";
import { recordRope } from "../../../kernels/rope/rope.ggml.ts";
import { recordScaleHeads } from "../../../kernels/scale-heads/scale-heads.ggml.ts";
import { recordStoreKv } from "../../../kernels/store-kv/store-kv.ggml.ts";
import { expectAt } from "../../core/expect-at.ts";
import type { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";
import { layerHeads } from "../config/kv-bytes.ts";
import type { DecoderModel, LayerCache } from "./decoder-model.ts";

/** Attention spans of each sequence's queries, for each window of a layer; recorded at the first use. */
export class SpansByWindow {
  readonly #graph: CpuGraph;
  readonly #sequences: readonly AttentionSequence[];
  readonly #blockSize: number;
  readonly #alwaysGathers: boolean;
  readonly #alibiScale: number | undefined;
  readonly #sides: Pick<AttentionOptions, "isCausal" | "isChunk">;
  readonly #config: DecoderModel["config"];
  readonly #spans = new Map<number | undefined, readonly RecordedSpan[]>();
  readonly #biased = new Map<CpuTensor, readonly BiasedSpan[]>();

  constructor(
    graph: CpuGraph,
    { sequences, blockSize }: { readonly sequences: readonly AttentionSequence[]; readonly blockSize: number },
    { caches, config }: Pick<DecoderModel, "caches" | "config">,
  ) {
    this.#graph = graph;
    this.#config = config;
    this.#sequences = sequences;
    this.#blockSize = blockSize;
    // Gathered rows are widened, and rows of a narrow cache that are read in place are not.
    this.#alibiScale = config.alibiScale;
    this.#sides = { isCausal: config.isCausal, isChunk: config.hasChunks };
    this.#alwaysGathers =
      (graph.isDeterministic || config.relativeBias !== undefined || config.positionBuckets !== undefined) &&
      caches.some((cache) => cache !== undefined && cache.keys.type !== "f32");
  }

  get(window: number | undefined): readonly RecordedSpan[] {
    const known = this.#spans.get(window);
    if (known !== undefined) return known;
    const options = {
      window,
      alwaysGathers: this.#alwaysGathers,
      distanceScale: this.#alibiScale,
      ...this.#sides,
    };
    const plans = this.#sequences.map((sequence) => planAttention(sequence, this.#blockSize, options));
    const recorded = recordSpans(this.#graph, plans);
    this.#spans.set(window, recorded);
    return recorded;
  }

  /** The spans without a window, with the numbers that a table has for their distances. */
  biased(table: CpuTensor): readonly BiasedSpan[] {
    const known = this.#biased.get(table);
    if (known !== undefined) return known;
    const { relativeBias, isCausal } = this.#config;
    if (relativeBias === undefined) throw new Error("a table of distances that the model does not describe");
    const recorded = this.get(undefined).map((one): BiasedSpan => {
      const { queryLength, numKeys } = one.span;
      const buckets = bucketsOf(queryLength, numKeys, { ...relativeBias, isCausal });
      const ids = this.#graph.input("i32", [buckets.length], buckets);
      return { ...one, bias: recordTableBias(this.#graph, one, table, ids) };
    });
    this.#biased.set(table, recorded);
    return recorded;
  }
}

/** The positions by which tokens rotate. */
export interface TokenPlaces {
  readonly positions: CpuTensor; // [numTokens]; with axes [4 * numTokens]
  /** Only for models all of whose ropes have sections. */
  readonly hasAxes: boolean;
  /** Factors of the queries, for models whose attention has a temperature: [numTokens, numHeads + numKvHeads]. */
  readonly temperatures?: CpuTensor | undefined;
}

/** The attention output times the sigmoid of the gates behind the values in `qkv`: [numTokens, numHeads * headDim]. */
export function recordOutputGate(
  graph: CpuGraph,
  { numHeads, numKvHeads, headDim }: DecoderConfig,
  attended: CpuTensor,
  qkv: CpuTensor,
): CpuTensor {
  const { base } = graph.ggml;
  const [numTokens = 0, rowWidth = 0] = qkv.shape;
  const width = numHeads * headDim;
  const offset = (numHeads + 2 * numKvHeads) * headDim * 4;
  const gates = base.view2d(graph.claim(), qkv.handle, width, numTokens, rowWidth * 4, offset);
  const shares = base.sigmoid(graph.claim(), base.cont(graph.claim(), gates));
  return { ...attended, handle: base.mul(graph.claim(), attended.handle, shares) };
}

/** 1 for each key head, and for the queries what the position of the token says. */
export function recordTemperatures(
  graph: CpuGraph,
  { temperature, numHeads, numKvHeads }: DecoderConfig,
  positions: Int32Array,
): CpuTensor | undefined {
  if (temperature === undefined) return undefined;
  const { beta, positions: step, firstPosition = 0 } = temperature;
  const width = numHeads + numKvHeads;
  const factors = new Float32Array(positions.length * width).fill(1);
  for (const [i, position] of positions.entries()) {
    const factor = 1 + beta * Math.log(1 + Math.floor((position + firstPosition) / step));
    factors.fill(factor, i * width, i * width + numHeads);
  }
  return graph.input("f32", [positions.length, width], factors);
}

/** Keys after their norms and rotation, and values as they are projected, to the slots of their tokens. */
export function recordStored(
  graph: CpuGraph,
  { config, caches }: DecoderModel,
  index: number,
  { queries, qkv, slots }: { readonly queries: CpuTensor; readonly qkv: CpuTensor; readonly slots: CpuTensor },
): void {
  const { numHeads, headDim, numKvHeads } = rowHeads(config, index);
  if (numKvHeads === 0) return;
  const cache = cacheOf(caches, index);
  recordStoreKv(graph, { cache: cache.keys, source: queries, slots, column: numHeads * headDim });
  const column = (numHeads + numKvHeads) * headDim;
  const { epsilon } = config.norm;
  const values = config.hasValueNorm
    ? {
        source: recordRmsNormHeads(graph, { x: qkv, weight: { numHeads: numKvHeads, headDim }, epsilon, column }),
        column: 0,
      }
    : { source: qkv, column };
  recordStoreKv(graph, { cache: cache.values, slots, ...values });
}

/** Heads in the rows of a layer's projection: those of keys are none where it reads another layer's. */
function rowHeads(config: DecoderConfig, index: number) {
  const layer = expectAt(config.layers, index);
  const { numKvHeads, headDim } = layerHeads(config, layer);
  return { numHeads: config.numHeads, numKvHeads: layer.kvSource === undefined ? numKvHeads : 0, headDim };
}

export function cacheOf(caches: DecoderModel["caches"], index: number): LayerCache {
  const cache = caches[index];
  if (cache === undefined) throw new Error(`layer ${index} has no cache`);
  return cache;
}

/** [numTokens, numHeads * headDim] */
export function recordLayerAttention(
  graph: CpuGraph,
  { config, caches, weights }: DecoderModel,
  index: number,
  queries: CpuTensor,
  spans: SpansByWindow,
): CpuTensor {
  const cache = cacheOf(caches, index);
  const { numHeads, attentionScale: scale } = config;
  const { numKvHeads } = layerHeads(config, expectAt(config.layers, index));
  const table = tableOf(weights.layers, index);
  if (table !== undefined) {
    const read = { q: queries, keyCache: cache.keys, valueCache: cache.values, spans: spans.biased(table) };
    return recordBiasedAttention(graph, { ...read, numHeads, numKvHeads, scale });
  }
  return recordAttention(graph, {
    q: queries,
    keyCache: cache.keys,
    // The latent of a row is its values too.
    valueCache: config.latent === undefined ? cache.values : cache.keys,
    valueDims: config.latent?.keyRank,
    spans: spans.get(expectAt(config.layers, index).window),
    numHeads,
    numKvHeads,
    scale,
    softCap: config.attentionSoftCap,
    sinks: expectAt(weights.layers, index).sinks,
    hasAlibi: config.alibiScale !== undefined,
  });
}

/** The layer's own table, or that of the first, which the others share. */
function tableOf(layers: DecoderModel["weights"]["layers"], index: number): CpuTensor | undefined {
  return expectAt(layers, index).relativeBias ?? layers[0]?.relativeBias;
}

/**
 * Queries and keys after their norms and rotation, as rows of heads; without either they keep their places in the rows of
 * `qkv`, which are [queries | keys | values].
 */
export function recordRotated(
  graph: CpuGraph,
  model: DecoderModel,
  index: number,
  qkv: CpuTensor,
  places: TokenPlaces,
): CpuTensor {
  const { headNorm, temperature } = model.config;
  const { headDim } = rowHeads(model.config, index);
  const rotates = expectAt(model.config.layers, index).rope !== undefined;
  const { temperatures: all } = places;
  const temperatures = rotates && temperature?.isOnlyWithoutRope === true ? undefined : all;
  const isAfter = headNorm?.isAfterRope === true;
  const rotated = recordTurned(graph, model, index, isAfter ? qkv : recordNormed(graph, model, index, qkv), places);
  if (!isAfter) return scaled(graph, rotated, temperatures);
  const [numTokens = 0, numHeads = 0] = rotated.shape;
  const flat = graph.ggml.base.reshape2d(graph.claim(), rotated.handle, numHeads * headDim, numTokens);
  const rows: CpuTensor = { handle: flat, type: "f32", shape: [numTokens, numHeads * headDim] };
  return scaled(graph, headsOf(recordNormed(graph, model, index, rows), headDim), temperatures);
}

function headsOf(x: CpuTensor, headDim: number): CpuTensor {
  const [numTokens = 0, width = 0] = x.shape;
  return { ...x, shape: [numTokens, width / headDim, headDim] };
}

function scaled(graph: CpuGraph, x: CpuTensor, temperatures: CpuTensor | undefined): CpuTensor {
  return temperatures === undefined ? x : recordScaleHeads(graph, { x, factors: temperatures });
}

/** Rows of queries and keys after their norms; `qkv` itself where they have none. */
function recordNormed(graph: CpuGraph, { config, weights }: DecoderModel, index: number, qkv: CpuTensor): CpuTensor {
  const { headNorm, norm, qkvClip: limit } = config;
  const { numHeads, numKvHeads, headDim } = rowHeads(config, index);
  const { headNorms: weight } = expectAt(weights.layers, index);
  if (headNorm === undefined) return qkv;
  const { epsilon } = norm;
  if (headNorm.isBare === true) {
    const rotates = expectAt(config.layers, index).rope !== undefined;
    const heads = { numHeads: numHeads + numKvHeads, headDim };
    return rotates ? recordRmsNormHeads(graph, { x: qkv, weight: heads, epsilon }) : qkv;
  }
  if (weight === undefined) return qkv;
  const { kind } = headNorm;
  const widths = [numHeads * headDim, numKvHeads * headDim];
  const x =
    headNorm.scope === "head"
      ? recordRmsNormHeads(graph, { x: qkv, weight, epsilon, kind })
      : recordNormParts(graph, { x: qkv, weight, widths, epsilon, kind });
  return limit === undefined ? x : recordClamp(graph, { x, limit });
}

function recordTurned(
  graph: CpuGraph,
  { config, weights, ropeMagnitudes }: DecoderModel,
  index: number,
  x: CpuTensor,
  places: TokenPlaces,
): CpuTensor {
  const { layers, ropes } = config;
  const { numHeads, numKvHeads, headDim } = rowHeads(config, index);
  const number = expectAt(layers, index).rope;
  if (number === undefined) return headsOf(x, headDim);
  const { theta, numDims, sections, isInterleaved } = expectAt(ropes, number);
  return recordRope(graph, {
    x,
    positions: places.positions,
    sections: places.hasAxes ? sections : undefined,
    numHeads: numHeads + numKvHeads,
    headDim,
    numDims,
    isInterleaved,
    theta,
    frequencyFactors: weights.ropeDivisors[number],
    magnitude: ropeMagnitudes[number] ?? 1,
  });
}
