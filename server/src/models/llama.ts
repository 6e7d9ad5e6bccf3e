/**
 * The forward pass of a Llama decoder as a list of ops over a ragged batch. It knows the order of the ops and the shapes
 * between them; how an op is computed is in kernels/, and what the batch means is the engine's affair.
 */
import { recordAdd } from "../../kernels/add/add.ggml.ts";
import {
  ATTENTION_TENSORS_PER_SPAN,
  type RecordedSpan,
  recordAttention,
  recordSpans,
} from "../../kernels/attention/attention.ggml.ts";
import { type AttentionSequence, planAttention } from "../../kernels/attention/attention-span.ts";
import { recordGatherRows } from "../../kernels/gather-rows/gather-rows.ggml.ts";
import { recordLinear } from "../../kernels/linear/linear.ggml.ts";
import { recordReplaceRows } from "../../kernels/replace-rows/replace-rows.ggml.ts";
import { recordRmsNorm } from "../../kernels/rms-norm/rms-norm.ggml.ts";
import { recordRope } from "../../kernels/rope/rope.ggml.ts";
import { recordSiluMul } from "../../kernels/silu-mul/silu-mul.ggml.ts";
import { recordStoreKv } from "../../kernels/store-kv/store-kv.ggml.ts";
import type { CpuGraph } from "../device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../device/cpu/cpu-tensor.ts";
import type { LlamaConfig } from "../formats/hf-config.ts";
import type { LlamaLayer, LlamaWeights } from "./llama-weights.ts";

/** Keys and values of one layer. */
export interface LayerCache {
  readonly keys: CpuTensor; // [numSlots, kvHeads * headDim]
  readonly values: CpuTensor; // [numSlots, kvHeads * headDim]
}

/** A batch whose indices have all been checked. */
export interface LlamaBatch {
  readonly tokenIds: Int32Array; // [numTokens]
  readonly positions: Int32Array; // [numTokens]
  readonly slots: Int32Array; // [numTokens]
  readonly sequences: readonly AttentionSequence[];
  readonly logitRows: Int32Array;
  readonly embeddings?: { readonly rows: Int32Array; readonly values: Float32Array };
  readonly blockSize: number;
}

export interface LlamaModel {
  readonly config: LlamaConfig;
  readonly weights: LlamaWeights;
  readonly caches: readonly LayerCache[];
}

/** Graph tensors of a layer and of the model besides attention's own, at most. */
const TENSORS_PER_LAYER = 32;
const TENSORS_PER_MODEL = 32;

/** Room that `recordLlama` needs in its graph. */
export function numLlamaTensors(config: LlamaConfig, numSequences: number): number {
  const perLayer = TENSORS_PER_LAYER + numSequences * ATTENTION_TENSORS_PER_SPAN;
  return TENSORS_PER_MODEL + 2 * numSequences + config.numLayers * perLayer;
}

/** What all layers of a step share. */
interface Shared {
  readonly positions: CpuTensor;
  readonly slots: CpuTensor;
  readonly spans: readonly RecordedSpan[];
  /** Rows that go on to the logits; undefined when all do, in their order. */
  readonly rows: CpuTensor | undefined;
}

/** Records the pass; the logits [logitRows, vocab], or undefined when only the cache is to be filled. */
export function recordLlama(graph: CpuGraph, model: LlamaModel, batch: LlamaBatch): CpuTensor | undefined {
  const { config, weights, caches } = model;
  const numTokens = batch.tokenIds.length;
  const shared: Shared = {
    positions: graph.input("i32", [numTokens], batch.positions),
    slots: graph.input("i32", [numTokens], batch.slots),
    spans: recordSpans(
      graph,
      batch.sequences.map((sequence) => planAttention(sequence, batch.blockSize)),
    ),
    rows: keepsAllRows(batch) ? undefined : rowsInput(graph, batch.logitRows),
  };
  let x = recordEmbedding(graph, weights, batch);
  for (const [i, layer] of weights.layers.entries()) {
    const cache = caches[i];
    if (cache === undefined) throw new Error(`layer ${i} has no cache`);
    const isLast = i === weights.layers.length - 1;
    const attention = recordLayerAttention(graph, config, weights, layer, cache, x, shared);
    if (!isLast) {
      x = recordLayerRest(graph, config, layer, x, attention(shared.spans));
      continue;
    }
    if (batch.logitRows.length === 0) return undefined;
    const keep = (tensor: CpuTensor): CpuTensor =>
      shared.rows === undefined ? tensor : recordGatherRows(graph, { table: tensor, ids: shared.rows });
    x = recordLayerRest(graph, config, layer, keep(x), keep(attention(shared.spans)));
  }
  const normed = recordRmsNorm(graph, { x, weight: weights.norm, epsilon: config.rmsNormEpsilon });
  const logits = recordLinear(graph, { x: normed, weight: weights.output });
  graph.output(logits);
  return logits;
}

function recordEmbedding(graph: CpuGraph, weights: LlamaWeights, batch: LlamaBatch): CpuTensor {
  const ids = graph.input("i32", [batch.tokenIds.length], batch.tokenIds);
  const x = recordGatherRows(graph, { table: weights.embedding, ids });
  if (batch.embeddings === undefined || batch.embeddings.rows.length === 0) return x;
  const { rows, values } = batch.embeddings;
  const hidden = weights.embedding.shape[1] ?? 0;
  return recordReplaceRows(graph, {
    x,
    rows: graph.input("i32", [rows.length], rows),
    values: graph.input("f32", [rows.length, hidden], values),
  });
}

/** Projects and stores keys and values; gives what attends, so that a step without logits can stop here. */
function recordLayerAttention(
  graph: CpuGraph,
  config: LlamaConfig,
  weights: LlamaWeights,
  layer: LlamaLayer,
  cache: LayerCache,
  x: CpuTensor,
  { positions, slots }: Shared,
): (spans: readonly RecordedSpan[]) => CpuTensor {
  const { numHeads, numKvHeads, headDim, ropeTheta: theta, rmsNormEpsilon: epsilon } = config;
  const normed = recordRmsNorm(graph, { x, weight: layer.attentionNorm, epsilon });
  const qkv = recordLinear(graph, { x: normed, weight: layer.qkv, bias: layer.qkvBias });
  const frequencyFactors = weights.ropeFactors;
  // Queries and keys lie side by side in a row: [queries | keys | values].
  const turned = numHeads + numKvHeads;
  const qk = recordRope(graph, { x: qkv, positions, numHeads: turned, headDim, theta, frequencyFactors });
  recordStoreKv(graph, { cache: cache.keys, source: qk, slots, column: numHeads * headDim });
  recordStoreKv(graph, { cache: cache.values, source: qkv, slots, column: turned * headDim });
  return (spans) =>
    recordAttention(graph, {
      q: qk,
      keyCache: cache.keys,
      valueCache: cache.values,
      spans,
      numHeads,
      numKvHeads,
    });
}

function recordLayerRest(
  graph: CpuGraph,
  { rmsNormEpsilon: epsilon }: LlamaConfig,
  layer: LlamaLayer,
  x: CpuTensor,
  attention: CpuTensor,
): CpuTensor {
  const projected = recordLinear(graph, { x: attention, weight: layer.attentionOut, bias: layer.attentionOutBias });
  const attended = recordAdd(graph, { a: projected, b: x });
  const normed = recordRmsNorm(graph, { x: attended, weight: layer.mlpNorm, epsilon });
  const gateUp = recordLinear(graph, { x: normed, weight: layer.gateUp, bias: layer.gateUpBias });
  const down = recordLinear(graph, {
    x: recordSiluMul(graph, { gateUp }),
    weight: layer.down,
    bias: layer.downBias,
  });
  return recordAdd(graph, { a: down, b: attended });
}

function keepsAllRows({ tokenIds, logitRows }: LlamaBatch): boolean {
  return logitRows.length === tokenIds.length && logitRows.every((row, i) => row === i);
}

function rowsInput(graph: CpuGraph, rows: Int32Array): CpuTensor | undefined {
  return rows.length === 0 ? undefined : graph.input("i32", [rows.length], rows);
}
