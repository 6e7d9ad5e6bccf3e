/** Runs a decoder from its files on the CPU: weights, paged cache, and one graph per step. */

import { availableProcessors, processorName } from "../../device/cpu/available-processors.ts";
import { CpuDevice } from "../../device/cpu/cpu-device.ts";
import { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import type { CpuTensor } from "../../device/cpu/cpu-tensor.ts";
import { type ModelFiles, openModelFiles } from "../../formats/hf/model-files.ts";
import type { LoraTargets } from "../../formats/lora/lora-adapter.ts";
import { isPackedTensors } from "../../formats/trtllm/engine-file.ts";
import type { EngineThreads } from "../../formats/trtllm/engine-header.ts";
import type { DecoderConfig } from "../../models/config/decoder-config.ts";
import type { ObservedRows } from "../../models/config/draft-head.ts";
import { narrowWindows, widestWindow } from "../../models/config/layer-windows.ts";
import { parseDecoderConfig } from "../../models/config/parse-decoder-config.ts";
import { hasThreeAxes } from "../../models/config/rope-axes.ts";
import { ropeFactors } from "../../models/config/rope-factors.ts";
import { numDecoderTensors, recordDecoder, recordObserved } from "../../models/cpu/decoder.ts";
import type { DecoderModel } from "../../models/cpu/decoder-model.ts";
import { type DecoderWeights, loadDecoderWeights } from "../../models/cpu/weights.ts";
import { loraTargets } from "../../models/weights/lora-targets.ts";
import type { RequestedType } from "../../models/weights/weight-types.ts";
import type { KvCacheType } from "../engine-spec.ts";
import { checkStep } from "../plan/check-step.ts";
import type { EncoderLimits } from "../request/encoder-input.ts";
import type { RowObserver, StepInput, StepRunner } from "../step-runner.ts";
import { CpuAdapters } from "./adapters.ts";
import { CpuEncoderMemory, encoderLimits } from "./encoder-memory.ts";
import { CpuKvCache } from "./kv-cache.ts";
import { CpuStates } from "./recurrent-states.ts";

/** For callers that drive steps by themselves. */
const DEFAULT_STATES = 8;

export interface DecoderRunnerOptions {
  /** Folder with config.json and the weights, or a GGUF file. */
  readonly modelDir: string;
  readonly numBlocks: number;
  readonly blockSize: number;
  /** Undefined: as many as there are idle processors. */
  readonly numThreads?: number | undefined;
  /**
   * Type of the matrices in memory; undefined: blocks as they are stored, floats as f32; "stored": floats too. "f32" computes all in f32; the
   * others round activations as well.
   */
  readonly weightType?: RequestedType | undefined;
  readonly cacheType?: KvCacheType | undefined;
  /** Blocks of the host KV cache. */
  readonly numHostBlocks?: number | undefined;
  /** Narrows what layers see: the first size is the first layer's, and after the last one comes the first again. */
  readonly attentionWindows?: readonly number[] | undefined;
  /** Logits of a sequence do not depend on the step's other sequences, on chunks, nor on blocks, to the bit. Slower. */
  readonly isDeterministic?: boolean | undefined;
  /** False: the library for the GEMMs of prompts is loaded with the first of them, which is late and not at all for short ones. */
  readonly isReadyForPrompts?: boolean | undefined;
  /** Sequences whose states are kept, for models with recurrent layers, or whose encoder's rows are. */
  readonly numStates?: number | undefined;
  /** States at ends of blocks that are kept beside them. */
  readonly numSnapshots?: number | undefined;
  /** Longest sequence, at most what the model allows, which is the default. Some models scale RoPE by it. */
  readonly maxPositions?: number | undefined;
}

/** Time of the steps so far, by phase. */
export interface StepTimings {
  numSteps: number;
  /** Checking, building the graph: on the event loop. */
  recordMs: number;
  /** Placing tensors, running the graph, copying logits out. */
  computeMs: number;
}

/** @throws Error naming the file, field or tensor that does not fit */
export async function createDecoderRunner(options: DecoderRunnerOptions): Promise<DecoderCpuRunner> {
  expectCount("numBlocks", options.numBlocks);
  expectCount("blockSize", options.blockSize);
  if (options.maxPositions !== undefined) expectCount("maxPositions", options.maxPositions);
  const model = await openModelFiles(options.modelDir);
  try {
    return await loadRunner(model, options);
  } finally {
    await model.tensors.close();
  }
}

async function loadRunner({ files, tensors }: ModelFiles, options: DecoderRunnerOptions): Promise<DecoderCpuRunner> {
  const parsed = parseDecoderConfig(files);
  const config = narrowWindows(parsed.config, options.attentionWindows);
  if (options.isDeterministic === true) expectDeterministic(config);
  const maxPositions = Math.min(config.maxPositions, options.maxPositions ?? config.maxPositions);
  const isWindowed = widestWindow(config) !== undefined; // then sequences outgrow the cache
  const servedPositions = isWindowed ? maxPositions : Math.min(maxPositions, options.numBlocks * options.blockSize);
  const ropes = config.ropes.map((rope) => ropeFactors(rope, servedPositions));
  const { numThreads, isDeterministic } = options;
  const knownThreads = numThreads === undefined ? builtThreads(tensors) : undefined;
  const device = new CpuDevice({ numThreads, isDeterministic, knownThreads });
  let weights: DecoderWeights | undefined;
  try {
    weights = await loadDecoderWeights(device, { ...parsed, config }, tensors, options.weightType, ropes);
    if (weights.layers.some(({ qkv }) => qkv.weight.type === "f32")) device.useDenseGemms();
    if (options.isReadyForPrompts !== false) device.denseGemms?.open();
    const ropeMagnitudes = ropes.map(({ magnitude }) => magnitude);
    const targets = loraTargets(config, parsed.weights);
    const encoderConfig = parsed.encoder?.config;
    const loaded = { config, weights, ropeMagnitudes, targets, encoderConfig };
    return new DecoderCpuRunner(device, loaded, { ...options, maxPositions });
  } catch (error) {
    weights?.close();
    await device.close();
    throw error;
  }
}

/** Numbers of threads measured when the engine was built, if that was on the same processors. */
function builtThreads(tensors: ModelFiles["tensors"]): EngineThreads | undefined {
  const { threads } = isPackedTensors(tensors) ? tensors : {};
  const isHere = threads?.processor === processorName() && threads.numProcessors === availableProcessors();
  return isHere ? threads : undefined;
}

/** @throws Error for layers whose results were not shown to be independent of batches */
function expectDeterministic({ latent, recurrent, hasCrossAttention }: DecoderConfig): void {
  if (hasCrossAttention) throw new Error("deterministic: models with an encoder and a decoder have no such mode");
  if (latent !== undefined)
    throw new Error("deterministic: models with latent attention (DeepSeek-V2 and later) have no such mode");
  if (recurrent !== undefined) throw new Error("deterministic: models with recurrent layers have no such mode");
}

/** State that a runner takes over besides its device. */
export interface LoadedDecoder extends Omit<DecoderModel, "caches" | "states" | "adapters"> {
  readonly targets: LoraTargets;
  /** Present for models whose decoder attends to an encoder. */
  readonly encoderConfig?: DecoderConfig | undefined;
}

export class DecoderCpuRunner implements StepRunner {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly numHostBlocks: number;
  readonly window: number | undefined;
  readonly maxPositions: number;
  readonly hasAxes: boolean;
  readonly eosTokenIds: readonly number[];
  readonly startTokenIds: readonly number[];
  readonly padTokenId: number | undefined;
  readonly encoder: EncoderLimits | undefined;
  readonly numStates: number | undefined;
  readonly numSnapshots: number | undefined;
  readonly reusesPrefixes: boolean;
  readonly config: DecoderConfig;
  readonly adapters: CpuAdapters;
  readonly timings: StepTimings = { numSteps: 0, recordMs: 0, computeMs: 0 };
  readonly #device: CpuDevice;
  readonly #cache: CpuKvCache;
  readonly #states: CpuStates | undefined;
  readonly #encoders: CpuEncoderMemory | undefined;
  readonly #model: DecoderModel;
  readonly #graph: CpuGraph;
  #logits: Float32Array = new Float32Array(0);
  #observer: { readonly observed: ObservedRows; readonly take: RowObserver } | undefined;
  #running: Promise<unknown> | undefined;
  #closing: Promise<void> | undefined;

  /** Takes over device and weights. */
  constructor(device: CpuDevice, { targets, encoderConfig, ...loaded }: LoadedDecoder, options: DecoderRunnerOptions) {
    const { config } = loaded;
    this.config = config;
    this.eosTokenIds = config.eosTokenIds;
    this.startTokenIds = config.startTokenIds;
    this.padTokenId = config.padTokenId;
    this.encoder = encoderConfig && encoderLimits(encoderConfig);
    this.vocabSize = config.vocabSize;
    this.hiddenSize = config.hiddenSize;
    this.maxPositions = options.maxPositions ?? config.maxPositions;
    this.hasAxes = hasThreeAxes(config);
    this.blockSize = options.blockSize;
    this.numBlocks = options.numBlocks;
    this.numHostBlocks = options.numHostBlocks ?? 0;
    this.window = widestWindow(config);
    this.#device = device;
    this.#cache = new CpuKvCache(device, config, {
      numBlocks: this.numBlocks,
      numHostBlocks: this.numHostBlocks,
      blockSize: this.blockSize,
      type: options.cacheType ?? "f32",
    });
    const { numStates = DEFAULT_STATES, numSnapshots = 0 } = options;
    const isRecurrent = config.recurrent !== undefined;
    this.numSnapshots = isRecurrent ? numSnapshots : undefined;
    this.numStates = isRecurrent ? numStates + numSnapshots : encoderConfig === undefined ? undefined : numStates;
    // A prefix has its keys in the cache, but without snapshots its state is gone.
    this.reusesPrefixes = this.numSnapshots !== 0;
    this.#states = isRecurrent ? new CpuStates(device, config, numStates + numSnapshots) : undefined;
    this.adapters = new CpuAdapters(device, targets);
    const states = this.#states?.layers ?? [];
    this.#model = { ...loaded, caches: this.#cache.layers, states, adapters: this.adapters.loaded };
    this.#graph = new CpuGraph(device);
    const type = options.cacheType ?? "f32";
    this.#encoders = encoderConfig && new CpuEncoderMemory(device, { decoder: this.#model, encoderConfig, type });
  }

  async run(input: StepInput): Promise<Float32Array> {
    if (this.#closing !== undefined) throw new Error("the step runner is closed");
    if (this.#running !== undefined) throw new Error("a step is running: await it before the next");
    const step = this.#runStep(input);
    this.#running = step;
    try {
      return await step;
    } finally {
      this.#running = undefined;
    }
  }

  /** For a draft head on the same device. It must not run while a step does. */
  get shared(): { readonly device: CpuDevice; readonly model: DecoderModel } {
    return { device: this.#device, model: this.#model };
  }

  observe(observed: ObservedRows, take: RowObserver): void {
    this.#observer = { observed, take };
  }

  close(): Promise<void> {
    this.#closing ??= this.#closeAfter(this.#running);
    return this.#closing;
  }

  async #runStep(input: StepInput): Promise<Float32Array> {
    const startMs = performance.now();
    checkStep(input, this);
    this.adapters.check(input.sequences);
    if (input.blockCopies !== undefined) this.#cache.copyBlocks(input.blockCopies);
    await this.#prepareStates(input);
    if (input.tokenIds.length === 0) {
      await this.#observer?.take(input, new Float32Array(0));
      return new Float32Array(0);
    }
    const encoders = this.#encoders;
    const sequences =
      encoders === undefined
        ? input.sequences
        : input.sequences.map((sequence) => ({ ...sequence, memory: encoders.layersOf(sequence) }));
    this.#graph.begin(numDecoderTensors(this.config, sequences));
    const batch = { ...input, sequences, tokenIds: withoutReplacedIds(input), blockSize: this.blockSize };
    const observer = this.#observer;
    const { logits, rows } =
      observer === undefined
        ? { logits: recordDecoder(this.#graph, this.#model, batch), rows: [] }
        : recordObserved(this.#graph, this.#model, batch, observer.observed);
    const recordedMs = performance.now();
    await this.#graph.run(input.tokenIds.length);
    const result = this.#logitsFor(input.logitRows.length);
    if (logits !== undefined) this.#graph.read(logits, result);
    this.timings.numSteps++;
    this.timings.recordMs += recordedMs - startMs;
    await observer?.take(input, this.#readRows(rows, input.tokenIds.length));
    this.timings.computeMs += performance.now() - recordedMs;
    return result;
  }

  async #prepareStates({ stateCopies, sequences, encoderInputs }: StepInput): Promise<void> {
    if (stateCopies !== undefined) {
      this.#states?.copy(stateCopies);
      this.#encoders?.share(stateCopies);
    }
    this.#states?.clearNew(sequences);
    if (encoderInputs !== undefined) await this.#encoders?.fill(encoderInputs);
  }

  /** [numTokens, rows.length * hiddenSize] The rows of each token behind each other. */
  #readRows(rows: readonly CpuTensor[], numTokens: number): Float32Array {
    const { hiddenSize } = this;
    const joined = new Float32Array(numTokens * rows.length * hiddenSize);
    const part = new Float32Array(numTokens * hiddenSize);
    for (const [i, tensor] of rows.entries()) {
      this.#graph.read(tensor, part);
      for (let token = 0; token < numTokens; token++) {
        const row = part.subarray(token * hiddenSize, (token + 1) * hiddenSize);
        joined.set(row, (token * rows.length + i) * hiddenSize);
      }
    }
    return joined;
  }

  /** One array serves all steps of up to its size, so that a decode step allocates no logits. */
  #logitsFor(numRows: number): Float32Array {
    const length = numRows * this.vocabSize;
    if (this.#logits.length < length) this.#logits = new Float32Array(length);
    return this.#logits.subarray(0, length);
  }

  async #closeAfter(running: Promise<unknown> | undefined): Promise<void> {
    await running?.catch(() => undefined);
    this.#graph.close();
    this.#cache.close();
    this.#states?.close();
    this.#encoders?.close();
    this.adapters.close();
    this.#model.weights.close();
    await this.#device.close();
  }
}

/** Rows that embeddings replace may carry any id; the look-up before that needs a valid one. */
function withoutReplacedIds({ tokenIds, embeddings }: StepInput): Int32Array {
  if (embeddings === undefined) return tokenIds;
  const ids = tokenIds.slice();
  for (const row of embeddings.rows) ids[row] = 0;
  return ids;
}

function expectCount(name: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 1) throw new Error(`${name}: expected a positive integer, got ${value}`);
}
