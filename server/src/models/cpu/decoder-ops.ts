/** The operations of a decoder's pass on the CPU: each records nodes of a ggml graph. Fusions are recorded as their parts. */

import { recordAdd } from "../../../kernels/add/add.ggml.ts";
import type { EqualRun } from "../../../kernels/causal-conv/causal-conv.ggml.ts";
import { recordClamp } from "../../../kernels/clamp/clamp.ggml.ts";
import { recordCrossAttention } from "../../../kernels/cross-attention/cross-attention.ggml.ts";
import { recordGatherRows } from "../../../kernels/gather-rows/gather-rows.ggml.ts";
import { recordLayerNorm } from "../../../kernels/layer-norm/layer-norm.ggml.ts";
import { recordLinear } from "../../../kernels/linear/linear.ggml.ts";
import { recordReplaceRows } from "../../../kernels/replace-rows/replace-rows.ggml.ts";
import { recordRmsNorm } from "../../../kernels/rms-norm/rms-norm.ggml.ts";
import { POSITIONS_PER_TOKEN } from "../../../kernels/rope/rope.ggml.ts";
import { recordScale } from "../../../kernels/scale/scale.ggml.ts";
import { recordSoftCap } from "../../../kernels/soft-cap/soft-cap.ggml.ts";
import { recordXielu } from "../../../kernels/xielu/xielu.ggml.ts";
import { expectAt } from "../../core/expect-at.ts";
import type { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import type { LoraLinear } from "../../formats/lora/lora-adapter.ts";
import type { DecoderConfig, Sinusoids } from "../config/decoder-config.ts";
import type { DecoderOps, NormedRows, NormStep } from "../decoder/decoder-ops.ts";
import type { CrossWeights, ExpertWeights, Linear, Norm, XieluWeights } from "../weights/weight-plan.ts";
import {
  recordCorrected,
  recordLaurel,
  recordMerged,
  recordPredicted,
  recordSparseGate,
  recordStreams,
  recordToOthers,
  streamOf,
} from "./altup.ts";
import {
  recordLayerAttention,
  recordOutputGate,
  recordRotated,
  recordStored,
  recordTemperatures,
  SpansByWindow,
  type TokenPlaces,
} from "./attention.ts";
import { recordAudioStem } from "./audio-stem.ts";
import type { DecoderBatch, DecoderModel } from "./decoder-model.ts";
import { DisentangledAttention } from "./disentangled.ts";
import { recordLatentOutput, recordLatentStored } from "./latent-attention.ts";
import { recordBeside, recordLayerInputs, recordPerLayerInputs } from "./layer-inputs.ts";
import { StepAdapters } from "./lora.ts";
import { recordActivation, recordExperts } from "./mlp.ts";
import { recordRecurrent, recordRuns } from "./recurrent.ts";

type Step = NormStep<CpuTensor, CpuTensor>;
type Normed = NormedRows<CpuTensor>;

export class CpuDecoderOps implements DecoderOps<CpuTensor, CpuTensor> {
  readonly logitRows: "none" | "some" | "all";
  readonly #graph: CpuGraph;
  readonly #model: DecoderModel;
  readonly #batch: DecoderBatch;
  readonly #places: TokenPlaces;
  readonly #slots: CpuTensor;
  readonly #spans: SpansByWindow;
  readonly #disentangled: DisentangledAttention;
  readonly #adapters: StepAdapters;
  /** Sequences of equal length, for models with recurrent layers. */
  readonly #runs: readonly EqualRun[];
  /** Rows of queries, keys, values and gates of the layer that attends next. */
  #projected: CpuTensor | undefined;
  /** Inputs of all layers, of the rows that are left. */
  #layerInputs: CpuTensor | undefined;
  /** Streams that the next layer expects, where the model has several. */
  #streams: CpuTensor | undefined;
  readonly joinAttention: DecoderOps<CpuTensor, CpuTensor>["joinAttention"];
  readonly besideMlp: DecoderOps<CpuTensor, CpuTensor>["besideMlp"];
  readonly endLayer: DecoderOps<CpuTensor, CpuTensor>["endLayer"];
  /** Rows of the batch that are kept; undefined: all. */
  #kept: Int32Array | undefined;

  constructor(graph: CpuGraph, model: DecoderModel, batch: DecoderBatch) {
    this.#graph = graph;
    this.#model = model;
    this.#batch = batch;
    this.#places = recordPlaces(graph, model.config, batch);
    this.#slots = graph.input("i32", [batch.tokenIds.length], batch.slots);
    this.#spans = new SpansByWindow(graph, batch, model);
    this.#disentangled = new DisentangledAttention(graph, model);
    this.#adapters = new StepAdapters(graph, batch.sequences, model.adapters);
    this.#runs = model.config.recurrent === undefined ? [] : recordRuns(graph, batch.sequences);
    this.logitRows = logitRowsOf(batch);
    const { hasExpertsBeside, perLayerInputs, hasLayerScale, altUp } = model.config;
    if (altUp !== undefined)
      this.joinAttention = (layer, normed, residual) => recordLaurel(graph, model, layer, { normed, residual });
    if (hasExpertsBeside)
      this.besideMlp = (layer, residual, dense) => recordBeside(graph, model, layer, { residual, dense });
    if (altUp !== undefined) this.endLayer = (layer, x) => this.#endOfStreams(layer, x);
    else if (perLayerInputs !== undefined || hasLayerScale) this.endLayer = (layer, x) => this.#endOf(layer, x);
  }

  embed(): CpuTensor {
    const graph = this.#graph;
    const { config, weights } = this.#model;
    const { tokenIds, embeddings, frames } = this.#batch;
    if (frames !== undefined) return this.#placed(recordAudioStem(graph, this.#model, frames, tokenIds.length));
    const ids = graph.input("i32", [tokenIds.length], tokenIds);
    let x = recordGatherRows(graph, { table: weights.embedding, ids });
    if (config.embeddingScale !== 1) x = recordScale(graph, { x, factor: config.embeddingScale });
    if (embeddings !== undefined && embeddings.rows.length > 0) {
      const { rows, values } = embeddings;
      x = recordReplaceRows(graph, {
        x,
        rows: graph.input("i32", [rows.length], rows),
        values: graph.input("f32", [rows.length, config.hiddenSize], values),
      });
    }
    this.#layerInputs = recordPerLayerInputs(graph, this.#model, tokenIds, x);
    if (config.altUp !== undefined) return this.#predict(0, recordStreams(graph, this.#model, x));
    x = this.#placed(x);
    if (weights.segments !== undefined) {
      const segments = this.#batch.segments ?? new Int32Array(tokenIds.length);
      const rows = graph.input("i32", [segments.length], segments);
      x = recordAdd(graph, { a: x, b: recordGatherRows(graph, { table: weights.segments, ids: rows }) });
    }
    return this.normalized(weights.embeddingNorm, x);
  }

  /** The first stream as a layer expects it: its residual stream. */
  #predict(layer: number, streams: CpuTensor): CpuTensor {
    const predicted = recordPredicted(this.#graph, this.#model, layer, streams);
    this.#streams = predicted;
    return streamOf(this.#graph, this.#model.config, predicted, 0);
  }

  /** Corrects all streams by a layer's result; gives the residual stream of the next one, or the merged streams. */
  #endOfStreams(layer: number, activated: CpuTensor): CpuTensor {
    const graph = this.#graph;
    const { config, weights } = this.#model;
    const predicted = this.#streams;
    const inputs = this.#layerInputs;
    if (predicted === undefined || inputs === undefined) throw new Error("alternating updates without streams");
    const corrected = recordCorrected(graph, this.#model, layer, { predicted, activated });
    const first = streamOf(graph, config, corrected, 0);
    const scale = expectAt(weights.layers, layer).altUp?.outputScale;
    const handle = scale === undefined ? first.handle : graph.ggml.base.mul(graph.claim(), first.handle, scale.handle);
    const x = recordLayerInputs(graph, this.#model, layer, { ...first, handle }, inputs);
    const streams = recordToOthers(graph, config, corrected, x);
    return layer + 1 < config.numLayers ? this.#predict(layer + 1, streams) : recordMerged(graph, this.#model, streams);
  }

  /** The residual stream with the layer's own inputs, times its scale. */
  #endOf(layer: number, x: CpuTensor): CpuTensor {
    const graph = this.#graph;
    const { scale } = expectAt(this.#model.weights.layers, layer);
    const inputs = this.#layerInputs;
    const sum =
      inputs === undefined ? x : recordAdd(graph, { a: recordLayerInputs(graph, this.#model, layer, x, inputs), b: x });
    return scale === undefined ? sum : { ...sum, handle: graph.ggml.base.mul(graph.claim(), sum.handle, scale.handle) };
  }

  /** With learned or computed positions added. */
  #placed(x: CpuTensor): CpuTensor {
    const graph = this.#graph;
    const { config, weights } = this.#model;
    if (weights.positions !== undefined) {
      const { positions } = this.#places;
      return recordAdd(graph, { a: x, b: recordGatherRows(graph, { table: weights.positions, ids: positions }) });
    }
    if (config.sinusoids === undefined) return x;
    const { positions } = this.#batch;
    const rows = sinusoidRows(positions, config.sinusoids, config.hiddenSize);
    return recordAdd(graph, { a: x, b: graph.input("f32", [positions.length, config.hiddenSize], rows) });
  }

  addNorm(residual: CpuTensor, { norm, branch, postNorm }: Step): Normed {
    if (branch === undefined) return this.#replaced(residual, this.normalized(norm, residual));
    const a = this.normalized(postNorm, branch);
    const { residualScale: factor } = this.#model.config;
    const scaled = factor === 1 ? a : recordScale(this.#graph, { x: a, factor });
    const sum = recordAdd(this.#graph, { a: scaled, b: residual });
    return this.#replaced(sum, this.normalized(norm, sum));
  }

  #replaced(residual: CpuTensor, normed: CpuTensor): Normed {
    return { residual: this.#model.config.residual === "post-norm" ? normed : residual, normed };
  }

  linear(layer: number, name: LoraLinear, weights: Linear<CpuTensor>, x: CpuTensor): CpuTensor {
    const y = recordLinear(this.#graph, { x, ...weights });
    return this.#adapters.change({ layer, linear: name, kept: this.#kept }, x, y);
  }

  rotateAndStore(layer: number, qkv: CpuTensor): CpuTensor {
    if (this.#isRecurrent(layer)) return recordRecurrent(this.#graph, this.#model, layer, qkv, this.#runs);
    this.#projected = qkv;
    if (this.#model.config.latent !== undefined)
      return recordLatentStored(this.#graph, this.#model, layer, { qkv, slots: this.#slots, places: this.#places });
    const { qkvClip: limit, headNorm } = this.#model.config;
    const rows = limit === undefined ? qkv : recordClamp(this.#graph, { x: qkv, limit });
    // Queries and keys that are normalized are clipped behind that.
    const from = headNorm === undefined ? rows : qkv;
    const queries = recordRotated(this.#graph, this.#model, layer, from, this.#places);
    recordStored(this.#graph, this.#model, layer, { queries, qkv: rows, slots: this.#slots });
    return queries;
  }

  attend(layer: number, queries: CpuTensor): CpuTensor {
    if (this.#isRecurrent(layer)) return queries;
    const { config } = this.#model;
    if (config.positionBuckets !== undefined && this.#projected !== undefined)
      return this.#disentangled.record(layer, this.#projected, this.#spans.get(undefined));
    const attended = recordLayerAttention(this.#graph, this.#model, layer, queries, this.#spans);
    if (config.latent !== undefined) return recordLatentOutput(this.#graph, this.#model, layer, attended);
    if (!config.hasOutputGate || this.#projected === undefined) return attended;
    return recordOutputGate(this.#graph, config, attended, this.#projected);
  }

  attendCross(layer: number, { query }: CrossWeights<CpuTensor>, x: CpuTensor): CpuTensor {
    const { numHeads, numKvHeads, attentionScale: scale } = this.#model.config;
    const spans = this.#batch.sequences.map(({ queryStart, queryLength, memory }) => {
      const own = memory?.[layer];
      if (own === undefined) throw new Error("a sequence whose encoder has not run");
      return { queryStart, queryLength, ...own };
    });
    const q = recordLinear(this.#graph, { x, ...query });
    return recordCrossAttention(this.#graph, { q, spans, numHeads, numKvHeads, scale });
  }

  projectCross({ out }: CrossWeights<CpuTensor>, attended: CpuTensor): CpuTensor {
    return recordLinear(this.#graph, { x: attended, ...out });
  }

  #isRecurrent(layer: number): boolean {
    return this.#model.config.layers[layer]?.isRecurrent === true;
  }

  /** Attention that nothing reads would leave inputs of the graph unused. */
  fillCache(layer: number, qkv: CpuTensor): void {
    if (this.#model.config.layers[layer]?.kvSource !== undefined) return;
    this.rotateAndStore(layer, qkv);
  }

  keepRows(residual: CpuTensor, attended: CpuTensor): { readonly residual: CpuTensor; readonly attended: CpuTensor } {
    const { logitRows } = this.#batch;
    this.#kept = logitRows;
    const ids = this.#graph.input("i32", [logitRows.length], logitRows);
    const keep = (table: CpuTensor): CpuTensor => recordGatherRows(this.#graph, { table, ids });
    this.#layerInputs = this.#layerInputs && keep(this.#layerInputs);
    this.#streams = this.#streams && keep(this.#streams);
    return { residual: keep(residual), attended: keep(attended) };
  }

  gatedLinear(layer: number, weights: Linear<CpuTensor>, x: CpuTensor): CpuTensor {
    const opened = this.linear(layer, "mlpIn", weights, x);
    const cutoff = this.#model.config.layers[layer]?.gateCutoff;
    return cutoff === undefined ? this.activate(opened) : recordSparseGate(this.#graph, opened, cutoff);
  }

  activate(x: CpuTensor, _reader?: Linear<CpuTensor>, xielu?: XieluWeights<CpuTensor>): CpuTensor {
    if (xielu !== undefined) return recordXielu(this.#graph, { x, ...xielu });
    return recordActivation(this.#graph, this.#model.config, x);
  }

  experts(weights: ExpertWeights<CpuTensor>, x: CpuTensor): CpuTensor {
    return recordExperts(this.#graph, this.#model.config, weights, x);
  }

  /** Attention first: (residual + attention) + MLP. */
  joinBranches(residual: CpuTensor, attention: CpuTensor, mlp: CpuTensor, step: Step): Normed {
    const sum = recordAdd(this.#graph, { a: attention, b: residual });
    return this.addNorm(sum, { ...step, branch: mlp });
  }

  /** Logits of the rows that the walk gives: f32 [logitRows, vocab]. */
  logits(normed: CpuTensor): CpuTensor {
    const { config, weights } = this.#model;
    const made = recordLinear(this.#graph, { x: normed, ...weights.output });
    const { logitScale: factor } = config;
    const x = factor === 1 ? made : recordScale(this.#graph, { x: made, factor });
    return config.logitSoftCap === undefined ? x : recordSoftCap(this.#graph, { x, cap: config.logitSoftCap });
  }

  protected normalized(weights: Norm<CpuTensor> | undefined, x: CpuTensor): CpuTensor {
    if (weights === undefined) return x;
    const { kind, epsilon } = this.#model.config.norm;
    if (kind === "layer") return recordLayerNorm(this.#graph, { x, ...weights, epsilon });
    return recordRmsNorm(this.#graph, { x, weight: weights.weight, epsilon });
  }
}

function recordPlaces(graph: CpuGraph, config: DecoderConfig, { axes, positions }: DecoderBatch): TokenPlaces {
  if (axes === undefined) {
    const temperatures = recordTemperatures(graph, config, positions);
    // Inputs that no node uses are errors.
    let recorded: CpuTensor | undefined;
    return {
      get positions(): CpuTensor {
        recorded ??= graph.input("i32", [positions.length], positions);
        return recorded;
      },
      hasAxes: false,
      temperatures,
    };
  }
  const lists = new Int32Array(POSITIONS_PER_TOKEN * positions.length); // the op takes a fourth
  lists.set(axes);
  return { positions: graph.input("i32", [lists.length], lists), hasAxes: true };
}

/** Sines of the first half, cosines of the second. Source: Vaswani et al. 2017, 3.5; transformers, modeling_m2m_100.py. */
function sinusoidRows(positions: Int32Array, { firstPosition }: Sinusoids, width: number): Float32Array {
  const half = Math.floor(width / 2);
  const rows = new Float32Array(positions.length * width);
  for (const [row, position] of positions.entries()) {
    for (let i = 0; i < half; i++) {
      const angle = (position + firstPosition) * Math.exp((-i * Math.log(10_000)) / (half - 1));
      rows[row * width + i] = Math.sin(angle);
      rows[row * width + half + i] = Math.cos(angle);
    }
  }
  return rows;
}

function logitRowsOf({ tokenIds, logitRows }: DecoderBatch): CpuDecoderOps["logitRows"] {
  if (logitRows.length === 0) return "none";
  return logitRows.length === tokenIds.length && logitRows.every((row, i) => row === i) ? "all" : "some";
}
