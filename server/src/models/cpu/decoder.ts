/** Records the forward pass of a decoder as a ggml graph, and counts the tensors that it needs. */
import { ATTENTION_TENSORS_PER_SPAN } from "../../../kernels/attention/attention.ggml.ts";
import { BIASED_TENSORS_PER_SPAN } from "../../../kernels/biased-attention/biased-attention.ggml.ts";
import { CROSS_TENSORS_PER_SPAN } from "../../../kernels/cross-attention/cross-attention.ggml.ts";
import { DISENTANGLED_TENSORS_PER_SPAN } from "../../../kernels/disentangled-bias/disentangled-bias.ggml.ts";
import { recordGatherRows } from "../../../kernels/gather-rows/gather-rows.ggml.ts";
import { MIX_TENSORS_PER_EXPERT } from "../../../kernels/mix-experts/mix-experts.ggml.ts";
import type { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";
import type { ObservedRows } from "../config/draft-head.ts";
import { walkDecoder } from "../decoder/walk-decoder.ts";
import { ALTUP_TENSORS, ALTUP_TENSORS_PER_STREAM } from "./altup.ts";
import type { DecoderBatch, DecoderModel, DecoderSequence } from "./decoder-model.ts";
import { CpuDecoderOps } from "./decoder-ops.ts";
import { LAYER_INPUT_TENSORS } from "./layer-inputs.ts";
import { countAdapters, LORA_TENSORS_PER_ADAPTER, LORA_TENSORS_PER_LAYER } from "./lora.ts";
import { equalRuns, RECURRENT_TENSORS_PER_RUN } from "./recurrent.ts";

/** Graph tensors of a layer and of the model besides attention's and the experts' own, at most. */
const TENSORS_PER_LAYER = 80;
const TENSORS_PER_EXPERT_LAYER = 64;
const TENSORS_PER_MODEL = 32;

/** Room that `recordDecoder` needs in its graph. */
export function numDecoderTensors(config: DecoderConfig, sequences: readonly DecoderSequence[]): number {
  const { experts, layers } = config;
  const numSequences = sequences.length;
  const numAdapters = countAdapters(sequences);
  const perMixture = experts === undefined ? 0 : TENSORS_PER_EXPERT_LAYER + MIX_TENSORS_PER_EXPERT * experts.numChosen;
  const hasBias = config.relativeBias !== undefined || config.positionBuckets !== undefined;
  const perSpan = hasBias ? BIASED_TENSORS_PER_SPAN + DISENTANGLED_TENSORS_PER_SPAN : ATTENTION_TENSORS_PER_SPAN;
  const perCross = config.hasCrossAttention ? CROSS_TENSORS_PER_SPAN : 0;
  const hasInputs = config.perLayerInputs !== undefined || config.hasExpertsBeside || config.hasLayerScale;
  const perInputs = (hasInputs ? LAYER_INPUT_TENSORS : 0) + (config.altUp === undefined ? 0 : ALTUP_TENSORS);
  const perStreams = ALTUP_TENSORS_PER_STREAM * (config.altUp?.numStreams ?? 0);
  const perLayer =
    TENSORS_PER_LAYER +
    perInputs +
    perMixture +
    numSequences * (perSpan + perCross) +
    numAdapters * LORA_TENSORS_PER_LAYER;
  const numWindows = new Set(layers.map(({ window }) => window)).size;
  const runs = config.recurrent === undefined ? 0 : equalRuns(sequences).length;
  const perStep = runs + 2 * numSequences * numWindows + LORA_TENSORS_PER_ADAPTER * numAdapters;
  return TENSORS_PER_MODEL + perStreams + perStep + layers.length * (perLayer + runs * RECURRENT_TENSORS_PER_RUN);
}

/** Records the pass of an encoder; the normalized rows [logitRows, hidden], of which there are some. */
export function recordHidden(graph: CpuGraph, model: DecoderModel, batch: DecoderBatch): CpuTensor {
  const normed = walkDecoder(new CpuDecoderOps(graph, model, batch), model);
  if (normed === undefined) throw new Error("an encoder of no rows");
  graph.output(normed);
  return normed;
}

export interface ObservedPass {
  /** [logitRows, vocab]; undefined: none are wanted. */
  readonly logits: CpuTensor | undefined;
  /** [numTokens, hidden] each, in the order in which they were asked for. */
  readonly rows: readonly CpuTensor[];
}

/** Records the pass, and the rows of all tokens that a draft head reads. */
export function recordObserved(
  graph: CpuGraph,
  model: DecoderModel,
  batch: DecoderBatch,
  observed: ObservedRows,
): ObservedPass {
  if (observed === "output") return recordObservedOutput(graph, model, batch);
  const ops = new ObservingOps(graph, model, batch, observed.layers);
  const normed = walkDecoder(ops, model);
  const logits = normed && ops.logits(normed);
  if (logits !== undefined) graph.output(logits);
  return { logits, rows: observed.layers.map((layer) => ops.rowsBefore(layer)) };
}

/** Every row passes the last layer and the norm; logits are made of those that are wanted. */
function recordObservedOutput(graph: CpuGraph, model: DecoderModel, batch: DecoderBatch): ObservedPass {
  const { tokenIds, logitRows } = batch;
  const ops = new CpuDecoderOps(graph, model, { ...batch, logitRows: tokenIds.map((_, i) => i) });
  const normed = walkDecoder(ops, model);
  if (normed === undefined) throw new Error("a pass without rows");
  graph.output(normed);
  if (logitRows.length === 0) return { logits: undefined, rows: [normed] };
  const ids = graph.input("i32", [logitRows.length], logitRows);
  const logits = ops.logits(recordGatherRows(graph, { table: normed, ids }));
  graph.output(logits);
  return { logits, rows: [normed] };
}

class ObservingOps extends CpuDecoderOps {
  readonly #graph: CpuGraph;
  readonly #observed = new Map<number, CpuTensor>();
  readonly #layers: readonly number[];

  constructor(graph: CpuGraph, model: DecoderModel, batch: DecoderBatch, layers: readonly number[]) {
    super(graph, model, batch);
    this.#graph = graph;
    this.#layers = layers;
  }

  observe(layer: number, residual: CpuTensor): void {
    if (!this.#layers.includes(layer)) return;
    this.#graph.output(residual);
    this.#observed.set(layer, residual);
  }

  rowsBefore(layer: number): CpuTensor {
    const rows = this.#observed.get(layer);
    if (rows === undefined) throw new Error(`no rows in front of layer ${layer}`);
    return rows;
  }
}

/** Records the pass; the logits [logitRows, vocab], or undefined when only the cache is to be filled. */
export function recordDecoder(graph: CpuGraph, model: DecoderModel, batch: DecoderBatch): CpuTensor | undefined {
  const ops = new CpuDecoderOps(graph, model, batch);
  const normed = walkDecoder(ops, model);
  if (normed === undefined) return undefined;
  const logits = ops.logits(normed);
  graph.output(logits);
  return logits;
}
