/** Runs a Llama model from a Hugging Face folder on the CPU: weights, paged cache, and one graph per step. */
import type { FloatType } from "../device/cpu/convert-elements.ts";
import { CpuBuffer } from "../device/cpu/cpu-buffer.ts";
import { CpuDevice } from "../device/cpu/cpu-device.ts";
import { CpuGraph } from "../device/cpu/cpu-graph.ts";
import { byteSize } from "../device/cpu/cpu-tensor.ts";
import { type LlamaConfig, readLlamaConfig } from "../formats/hf-config.ts";
import { openSafetensors } from "../formats/safetensors.ts";
import { type LayerCache, type LlamaModel, numLlamaTensors, recordLlama } from "../models/llama.ts";
import { type LlamaWeights, loadLlamaWeights } from "../models/llama-weights.ts";
import { checkStep } from "./check-step.ts";
import type { StepInput, StepRunner } from "./step-runner.ts";

export interface LlamaCpuRunnerOptions {
  /** Folder with config.json and the safetensors files. */
  readonly modelDir: string;
  readonly numBlocks: number;
  readonly blockSize: number;
  /** Undefined: as many as there are idle processors. */
  readonly numThreads?: number | undefined;
  /** Type of the matrices in memory. "f32" computes all in f32; the others round activations as well. */
  readonly weightType?: FloatType | undefined;
  readonly cacheType?: "f32" | "f16" | undefined;
}

/** Where the time of the steps so far went. */
export interface StepTimings {
  numSteps: number;
  /** Checking, building the graph: on the event loop. */
  recordMs: number;
  /** Placing tensors, running the graph, copying logits out. */
  computeMs: number;
}

/** @throws Error naming the file, field or tensor that does not fit */
export async function createLlamaCpuRunner(options: LlamaCpuRunnerOptions): Promise<LlamaCpuRunner> {
  expectCount("numBlocks", options.numBlocks);
  expectCount("blockSize", options.blockSize);
  const config = await readLlamaConfig(options.modelDir);
  const device = new CpuDevice({ numThreads: options.numThreads });
  let weights: LlamaWeights | undefined;
  try {
    weights = await loadWeights(device, config, options);
    return new LlamaCpuRunner(device, config, weights, options);
  } catch (error) {
    weights?.close();
    await device.close();
    throw error;
  }
}

export class LlamaCpuRunner implements StepRunner {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly maxPositions: number;
  readonly config: LlamaConfig;
  readonly timings: StepTimings = { numSteps: 0, recordMs: 0, computeMs: 0 };
  readonly #device: CpuDevice;
  readonly #cache: CpuBuffer;
  readonly #model: LlamaModel;
  readonly #graph: CpuGraph;
  #logits: Float32Array = new Float32Array(0);
  #running: Promise<unknown> | undefined;
  #closing: Promise<void> | undefined;

  /** Takes over device and weights. */
  constructor(device: CpuDevice, config: LlamaConfig, weights: LlamaWeights, options: LlamaCpuRunnerOptions) {
    this.config = config;
    this.vocabSize = config.vocabSize;
    this.hiddenSize = config.hiddenSize;
    this.maxPositions = config.maxPositions;
    this.blockSize = options.blockSize;
    this.numBlocks = options.numBlocks;
    this.#device = device;
    const shape = [options.numBlocks * options.blockSize, config.numKvHeads * config.headDim] as const;
    const spec = { type: options.cacheType ?? "f32", shape } as const;
    this.#cache = new CpuBuffer(
      device,
      Array.from({ length: 2 * config.numLayers }, () => spec),
    );
    this.#model = { config, weights, caches: pairLayers(this.#cache) };
    this.#graph = new CpuGraph(device);
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

  close(): Promise<void> {
    this.#closing ??= this.#closeAfter(this.#running);
    return this.#closing;
  }

  async #runStep(input: StepInput): Promise<Float32Array> {
    const startMs = performance.now();
    checkStep(input, this);
    this.#copyBlocks(input.blockCopies);
    if (input.tokenIds.length === 0) return new Float32Array(0);
    this.#graph.begin(numLlamaTensors(this.config, input.sequences.length));
    const logits = recordLlama(this.#graph, this.#model, {
      ...input,
      tokenIds: withoutReplacedIds(input),
      blockSize: this.blockSize,
    });
    const recordedMs = performance.now();
    await this.#graph.run();
    const result = this.#logitsFor(input.logitRows.length);
    if (logits !== undefined) this.#graph.read(logits, result);
    this.timings.numSteps++;
    this.timings.recordMs += recordedMs - startMs;
    this.timings.computeMs += performance.now() - recordedMs;
    return result;
  }

  /** One array serves all steps of up to its size, so that a decode step allocates no logits. */
  #logitsFor(numRows: number): Float32Array {
    const length = numRows * this.vocabSize;
    if (this.#logits.length < length) this.#logits = new Float32Array(length);
    return this.#logits.subarray(0, length);
  }

  #copyBlocks(pairs: Int32Array | undefined): void {
    if (pairs === undefined) return;
    for (const tensor of this.#cache.tensors) {
      const blockBytes = byteSize(tensor) / this.numBlocks;
      const block = new Uint8Array(blockBytes);
      for (let i = 0; i < pairs.length; i += 2) {
        this.#cache.read(tensor, block, (pairs[i] ?? 0) * blockBytes);
        this.#cache.write(tensor, block, (pairs[i + 1] ?? 0) * blockBytes);
      }
    }
  }

  async #closeAfter(running: Promise<unknown> | undefined): Promise<void> {
    await running?.catch(() => undefined);
    this.#graph.close();
    this.#cache.close();
    this.#model.weights.close();
    await this.#device.close();
  }
}

async function loadWeights(
  device: CpuDevice,
  config: LlamaConfig,
  { modelDir, weightType }: LlamaCpuRunnerOptions,
): Promise<LlamaWeights> {
  const files = await openSafetensors(modelDir);
  try {
    return await loadLlamaWeights(device, config, files, weightType ?? "f32");
  } finally {
    await files.close();
  }
}

function pairLayers({ tensors }: CpuBuffer): LayerCache[] {
  const caches: LayerCache[] = [];
  for (let i = 0; i + 1 < tensors.length; i += 2) {
    const [keys, values] = tensors.slice(i, i + 2);
    if (keys !== undefined && values !== undefined) caches.push({ keys, values });
  }
  return caches;
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
