/**
 * The forward pass of a decoder as a list of ops over a ragged batch. It knows the order of the ops and the shapes
 * between them; how an op is computed is in kernels/, which ops there are is in the config, and what the batch means is
 * the engine's affair.
 */
import { recordAdd } from "../../../kernels/add/add.ggml.ts";
import { ATTENTION_TENSORS_PER_SPAN } from "../../../kernels/attention/attention.ggml.ts";
import { recordGatherRows } from "../../../kernels/gather-rows/gather-rows.ggml.ts";
import { recordLayerNorm } from "../../../kernels/layer-norm/layer-norm.ggml.ts";
import { recordLinear } from "../../../kernels/linear/linear.ggml.ts";
import { MIX_TENSORS_PER_EXPERT } from "../../../kernels/mix-experts/mix-experts.ggml.ts";
import { recordReplaceRows } from "../../../kernels/replace-rows/replace-rows.ggml.ts";
import { recordRmsNorm } from "../../../kernels/rms-norm/rms-norm.ggml.ts";
import { POSITIONS_PER_TOKEN } from "../../../kernels/rope/rope.ggml.ts";
import { recordScale } from "../../../kernels/scale/scale.ggml.ts";
import { recordSoftCap } from "../../../kernels/soft-cap/soft-cap.ggml.ts";
import type { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";
import type { LayerWeights, Norm } from "../weights/weight-plan.ts";
import { recordKeysAndValues, recordLayerAttention, SpansByWindow, type TokenPlaces } from "./attention.ts";
import type { DecoderBatch, DecoderModel, DecoderSequence } from "./decoder-model.ts";
import {
  countAdapters,
  LORA_TENSORS_PER_ADAPTER,
  LORA_TENSORS_PER_LAYER,
  type LoraChanger,
  StepAdapters,
} from "./lora.ts";
import { recordMlp } from "./mlp.ts";

/** Graph tensors of a layer and of the model besides attention's and the experts' own, at most. */
const TENSORS_PER_LAYER = 48;
const TENSORS_PER_EXPERT_LAYER = 32;
const TENSORS_PER_MODEL = 32;

/** Room that `recordDecoder` needs in its graph. */
export function numDecoderTensors({ experts, layers }: DecoderConfig, sequences: readonly DecoderSequence[]): number {
  const numSequences = sequences.length;
  const numAdapters = countAdapters(sequences);
  const perMixture = experts === undefined ? 0 : TENSORS_PER_EXPERT_LAYER + MIX_TENSORS_PER_EXPERT * experts.numChosen;
  const perLayer =
    TENSORS_PER_LAYER + perMixture + numSequences * ATTENTION_TENSORS_PER_SPAN + numAdapters * LORA_TENSORS_PER_LAYER;
  const numWindows = new Set(layers.map(({ window }) => window)).size;
  const perStep = 2 * numSequences * numWindows + LORA_TENSORS_PER_ADAPTER * numAdapters;
  return TENSORS_PER_MODEL + perStep + layers.length * perLayer;
}

/** Records the pass; the logits [logitRows, vocab], or undefined when only the cache is to be filled. */
export function recordDecoder(graph: CpuGraph, model: DecoderModel, batch: DecoderBatch): CpuTensor | undefined {
  const { config, weights } = model;
  const numTokens = batch.tokenIds.length;
  const places = recordPlaces(graph, batch);
  const shared = {
    places,
    slots: graph.input("i32", [numTokens], batch.slots),
    spans: new SpansByWindow(graph, batch, model.caches),
  };
  const adapters = new StepAdapters(graph, batch.sequences, model.adapters);
  const lastRows = keepsAllRows(batch) ? undefined : batch.logitRows;
  let x = recordEmbedding(graph, model, batch, places);
  for (const [i, layer] of weights.layers.entries()) {
    const isLast = i === weights.layers.length - 1;
    const normed = recordNorm(graph, config, layer.attentionNorm, x);
    const queries = recordKeysAndValues(graph, model, i, normed, { ...shared, lora: adapters.changer(i) });
    if (isLast && batch.logitRows.length === 0) return undefined;
    const attentionOutput = recordLayerAttention(graph, model, i, queries, shared.spans);
    // Only rows that go on to logits pass the rest of the last layer.
    const keep = isLast && lastRows !== undefined ? rowsKeeper(graph, lastRows) : (tensor: CpuTensor) => tensor;
    const lora = adapters.changer(i, isLast ? lastRows : undefined);
    x = recordLayerRest(graph, config, { ...layer, lora }, keep(x), keep(attentionOutput), () => keep(normed));
  }
  const logits = recordLogits(graph, model, x);
  graph.output(logits);
  return logits;
}

function recordPlaces(graph: CpuGraph, { axes, positions }: DecoderBatch): TokenPlaces {
  if (axes === undefined) return { positions: graph.input("i32", [positions.length], positions), hasAxes: false };
  const lists = new Int32Array(POSITIONS_PER_TOKEN * positions.length); // the op takes a fourth
  lists.set(axes);
  return { positions: graph.input("i32", [lists.length], lists), hasAxes: true };
}

function recordEmbedding(
  graph: CpuGraph,
  { config, weights }: DecoderModel,
  batch: DecoderBatch,
  { positions }: TokenPlaces,
) {
  const ids = graph.input("i32", [batch.tokenIds.length], batch.tokenIds);
  let x = recordGatherRows(graph, { table: weights.embedding, ids });
  if (config.embeddingScale !== 1) x = recordScale(graph, { x, factor: config.embeddingScale });
  if (batch.embeddings !== undefined && batch.embeddings.rows.length > 0) {
    const { rows, values } = batch.embeddings;
    x = recordReplaceRows(graph, {
      x,
      rows: graph.input("i32", [rows.length], rows),
      values: graph.input("f32", [rows.length, config.hiddenSize], values),
    });
  }
  if (weights.positions === undefined) return x;
  return recordAdd(graph, { a: x, b: recordGatherRows(graph, { table: weights.positions, ids: positions }) });
}

/** Adds what attention and the MLP give. `normed`: what attention has read, for models whose MLP reads the same. */
function recordLayerRest(
  graph: CpuGraph,
  config: DecoderConfig,
  layer: LayerWeights<CpuTensor> & { readonly lora: LoraChanger },
  x: CpuTensor,
  attentionOutput: CpuTensor,
  normed: () => CpuTensor,
): CpuTensor {
  const { attentionPostNorm, mlpNorm, mlpPostNorm, lora } = layer;
  const projected = lora("oProj", attentionOutput, recordLinear(graph, { x: attentionOutput, ...layer.oProj }));
  const branch = attentionPostNorm === undefined ? projected : recordNorm(graph, config, attentionPostNorm, projected);
  const sum = recordAdd(graph, { a: branch, b: x });
  const mlpSource = config.residual === "parallel" ? x : sum;
  const mlpInput = mlpNorm === undefined ? normed() : recordNorm(graph, config, mlpNorm, mlpSource);
  const mlp = recordMlp(graph, config, layer.mlp, mlpInput, lora);
  return recordAdd(graph, { a: mlpPostNorm === undefined ? mlp : recordNorm(graph, config, mlpPostNorm, mlp), b: sum });
}

function recordLogits(graph: CpuGraph, { config, weights }: DecoderModel, x: CpuTensor): CpuTensor {
  const logits = recordLinear(graph, { x: recordNorm(graph, config, weights.norm, x), ...weights.output });
  return config.logitSoftCap === undefined ? logits : recordSoftCap(graph, { x: logits, cap: config.logitSoftCap });
}

function recordNorm(graph: CpuGraph, { norm }: DecoderConfig, weights: Norm<CpuTensor>, x: CpuTensor): CpuTensor {
  const { epsilon } = norm;
  if (norm.kind === "layer") return recordLayerNorm(graph, { x, ...weights, epsilon });
  return recordRmsNorm(graph, { x, weight: weights.weight, epsilon });
}

function keepsAllRows({ tokenIds, logitRows }: DecoderBatch): boolean {
  return logitRows.length === tokenIds.length && logitRows.every((row, i) => row === i);
}

function rowsKeeper(graph: CpuGraph, rows: Int32Array): (tensor: CpuTensor) => CpuTensor {
  const ids = graph.input("i32", [rows.length], rows);
  return (table) => recordGatherRows(graph, { table, ids });
}
