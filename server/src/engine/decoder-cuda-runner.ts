/**
 * Runs a decoder on a GPU: steps in which every sequence adds one token as graphs recorded per size, all others kernel by
 * kernel. The event loop goes on while the device works.
 */
import type { ElemType } from "../../kernels/cuda/launch-args.ts";
import { convertFloats } from "../device/cuda/convert-floats.ts";
import { CudaDevice } from "../device/cuda/cuda-device.ts";
import { CudaGraph } from "../device/cuda/cuda-graph.ts";
import type { CudaBuffer, PinnedBuffer } from "../device/cuda/cuda-memory.ts";
import type { CudaEvent } from "../device/cuda/cuda-stream.ts";
import { DenseProducts, productRows } from "../device/cuda/dense-products.ts";
import { CudaTimer } from "../device/cuda/measure-algorithms.ts";
import { openModelFiles } from "../formats/model-files.ts";
import type { TensorSource } from "../formats/tensor-source.ts";
import { layOutStep, packStep, type StepSizes } from "../models/cuda-step-layout.ts";
import { type CudaReplacedRows, enqueueEmbedding, enqueueLayers, enqueueLogits } from "../models/decoder-cuda.ts";
import type { CudaBatch, CudaPass } from "../models/decoder-cuda-pass.ts";
import { type ParsedDecoder, parseDecoderConfig } from "../models/parse-decoder-config.ts";
import { checkStep } from "./check-step.ts";
import { type CudaDecoder, setUpCudaDecoder } from "./cuda-setup.ts";
import type { StepInput, StepRunner } from "./step-runner.ts";

export interface CudaRunnerOptions {
  readonly modelDir: string;
  /** Which GPU. */
  readonly ordinal?: number | undefined;
  readonly type?: ElemType | undefined;
  readonly blockSize: number;
  /** 0: as many as fit. */
  readonly numBlocks: number;
  /** Of the memory that is free once all else is placed. */
  readonly memoryShare?: number | undefined;
  readonly maxPositions?: number | undefined;
  /** Of one step. */
  readonly maxTokens: number;
  readonly maxSequences: number;
  readonly usesGraphs?: boolean | undefined;
  readonly tell?: ((line: string) => void) | undefined;
}

/** Where the time of the steps so far went. */
export interface CudaStepTimings {
  numSteps: number;
  /** Checking, packing, enqueueing: on the event loop. */
  hostMs: number;
  /** From there until the results are here. */
  waitMs: number;
}

const DEFAULT_MEMORY_SHARE = 0.92;
/** Of the numbers of a step, beside its block table. */
const MIN_BLOCKS = 16;
/** More rows are made in turns, so that their logits need not all fit at once. */
const MAX_LOGIT_ROWS = 256;

/** @throws Error naming the file, field, tensor or library that is missing */
export async function createCudaRunner(options: CudaRunnerOptions): Promise<DecoderCudaRunner> {
  const model = await openModelFiles(options.modelDir);
  try {
    const device = new CudaDevice(options.ordinal ?? 0);
    return await loadCudaRunner(device, parseDecoderConfig(model.files), model.tensors, options);
  } finally {
    await model.tensors.close();
  }
}

/** Takes over the device. */
export async function loadCudaRunner(
  device: CudaDevice,
  parsed: ParsedDecoder,
  files: TensorSource,
  options: Omit<CudaRunnerOptions, "modelDir">,
): Promise<DecoderCudaRunner> {
  const maxPositions = Math.min(parsed.config.maxPositions, options.maxPositions ?? parsed.config.maxPositions);
  const maxTokens = Math.max(options.maxTokens, options.maxSequences);
  const bounds = { maxTokens, maxSequences: options.maxSequences, maxPositions };
  const maxLogitRows = Math.max(MAX_LOGIT_ROWS, options.maxSequences);
  try {
    const decoder = await setUpCudaDecoder(device, parsed, files, {
      ...options,
      ...bounds,
      maxLogitRows,
      type: options.type ?? "bf16",
      memoryShare: options.memoryShare ?? DEFAULT_MEMORY_SHARE,
    });
    return new DecoderCudaRunner(device, decoder, { ...bounds, maxLogitRows, usesGraphs: options.usesGraphs ?? true });
  } catch (error) {
    device.close();
    throw error;
  }
}

interface RunnerBounds {
  readonly maxTokens: number;
  readonly maxSequences: number;
  readonly maxPositions: number;
  readonly maxLogitRows: number;
  readonly usesGraphs: boolean;
}

/** The numbers of a step: here, and where the device reads them. */
interface StepNumbersMemory {
  readonly pinned: PinnedBuffer;
  readonly values: Int32Array;
  readonly buffer: CudaBuffer;
}

export class DecoderCudaRunner implements StepRunner {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly maxPositions: number;
  readonly timings: CudaStepTimings = { numSteps: 0, hostMs: 0, waitMs: 0 };
  readonly device: CudaDevice;
  readonly products: DenseProducts;
  readonly #decoder: CudaDecoder;
  readonly #bounds: RunnerBounds;
  readonly #timer: CudaTimer;
  readonly #done: CudaEvent;
  readonly #graphs = new Map<string, CudaGraph>();
  #numbers: StepNumbersMemory | undefined;
  #logits: PinnedBuffer | undefined;
  #running: Promise<unknown> | undefined;
  #closing: Promise<void> | undefined;

  /** Takes over device and decoder. */
  constructor(device: CudaDevice, decoder: CudaDecoder, bounds: RunnerBounds) {
    const { config, blockSize, numBlocks } = decoder.model;
    this.vocabSize = config.vocabSize;
    this.hiddenSize = config.hiddenSize;
    this.maxPositions = bounds.maxPositions;
    this.blockSize = blockSize;
    this.numBlocks = numBlocks;
    this.device = device;
    this.#decoder = decoder;
    this.#bounds = bounds;
    this.#timer = new CudaTimer(device);
    this.products = new DenseProducts(device, this.#timer);
    this.#done = device.event();
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

  /** How many graphs have been recorded. */
  get numGraphs(): number {
    return this.#graphs.size;
  }

  async #runStep(input: StepInput): Promise<Float32Array> {
    const startMs = performance.now();
    checkStep(input, this);
    this.#checkBounds(input);
    this.#copyBlocks(input.blockCopies);
    const numRows = input.logitRows.length;
    if (input.tokenIds.length === 0) return new Float32Array(0);
    const isDecode = this.#bounds.usesGraphs && isDecodeStep(input);
    const logits = isDecode ? this.#enqueueDecode(input) : this.#enqueueAny(input);
    this.#done.record(this.device.stream);
    const enqueuedMs = performance.now();
    await this.#done.passed("running a step");
    this.timings.numSteps++;
    this.timings.hostMs += enqueuedMs - startMs;
    this.timings.waitMs += performance.now() - enqueuedMs;
    return logits.subarray(0, numRows * this.vocabSize);
  }

  /** Sizes are rounded up, so that few graphs serve all steps. The first step of a size runs before it is recorded. */
  #enqueueDecode(input: StepInput): Float32Array {
    const rows = productRows(input.tokenIds.length);
    const maxBlocks = 2 ** Math.ceil(Math.log2(Math.max(MIN_BLOCKS, this.#neededBlocks(input))));
    const sizes = { numTokens: rows, numSequences: rows, maxBlocks, numLogitRows: 0 };
    const batch = this.#upload(input, sizes, { numDecoding: rows, maxQueryLength: 1, keepsAllRows: true });
    const pass = this.#pass({ ...batch, numLogitRows: rows });
    const key = `${rows} ${maxBlocks}`;
    const graph = this.#graphs.get(key);
    if (graph === undefined) {
      this.#enqueueDecodePass(pass);
      this.#graphs.set(key, new CudaGraph(this.device.driver, this.device.stream, () => this.#enqueueDecodePass(pass)));
    } else {
      graph.launch(this.device.stream);
    }
    return this.#copyLogits(0, input.logitRows.length, input.logitRows.length);
  }

  #enqueueDecodePass(pass: CudaPass): void {
    enqueueEmbedding(pass);
    const rows = enqueueLayers(pass);
    if (rows === undefined) throw new Error("a decode step without logits");
    enqueueLogits(pass, rows, { first: 0, count: pass.batch.numTokens }, pass.memory.logits);
  }

  #enqueueAny(input: StepInput): Float32Array {
    const numLogitRows = input.logitRows.length;
    const keepsAllRows = keepsRows(input);
    const sizes = {
      numTokens: input.tokenIds.length,
      numSequences: input.sequences.length,
      maxBlocks: this.#neededBlocks(input),
      numLogitRows,
    };
    const pass = this.#pass(this.#upload(input, sizes, { ...countQueries(input), keepsAllRows }));
    enqueueEmbedding(pass, this.#uploadEmbeddings(input));
    const rows = enqueueLayers(pass);
    if (rows === undefined) return new Float32Array(0);
    let logits: Float32Array = new Float32Array(0);
    for (let first = 0; first < numLogitRows; first += this.#bounds.maxLogitRows) {
      const count = Math.min(this.#bounds.maxLogitRows, numLogitRows - first);
      enqueueLogits(pass, rows, { first, count }, pass.memory.logits);
      logits = this.#copyLogits(first, count, numLogitRows);
    }
    return logits;
  }

  #pass(batch: CudaBatch): CudaPass {
    const { model, memory } = this.#decoder;
    return { stream: this.device.stream, products: this.products, model, memory, batch };
  }

  #upload(
    input: StepInput,
    sizes: StepSizes,
    kind: Pick<CudaBatch, "numDecoding" | "maxQueryLength" | "keepsAllRows">,
  ): CudaBatch {
    const layout = layOutStep(sizes);
    const { values, pinned, buffer } = this.#numbersFor(layout.length);
    packStep(input, sizes, layout, this.blockSize, values);
    this.device.stream.copyToDevice(buffer.address, pinned.address, 4 * layout.length);
    return { ...sizes, ...kind, numbers: buffer.address, layout };
  }

  /** Room for the numbers of a step. Graphs remember where it is: they go when it has to grow. */
  #numbersFor(length: number): StepNumbersMemory {
    const known = this.#numbers;
    if (known !== undefined && known.values.length >= length) return known;
    this.#dropGraphs();
    known?.pinned.close();
    known?.buffer.close();
    const { maxTokens, maxSequences, maxPositions } = this.#bounds;
    const usual = 4 * maxTokens + maxSequences * (8 + 2 * Math.ceil(Math.min(maxPositions, 8192) / this.blockSize));
    const numBytes = 4 * Math.max(length, usual);
    const pinned = this.device.pin(numBytes);
    const values = new Int32Array(pinned.bytes.buffer, pinned.bytes.byteOffset, numBytes / 4);
    this.#numbers = { pinned, values, buffer: this.device.allocate("the numbers of a step", numBytes) };
    return this.#numbers;
  }

  /** Copies what `memory.logits` holds to the place of these rows among all of the step's. */
  #copyLogits(first: number, count: number, total: number): Float32Array {
    const rowBytes = 4 * this.vocabSize;
    if (this.#logits === undefined || this.#logits.bytes.byteLength < total * rowBytes) {
      this.device.stream.synchronize();
      this.#logits?.close();
      this.#logits = this.device.pin(Math.max(total, 8) * rowBytes);
    }
    const { address, bytes } = this.#logits;
    this.device.stream.copyToHost(address + BigInt(first * rowBytes), this.#decoder.memory.logits, count * rowBytes);
    return new Float32Array(bytes.buffer, bytes.byteOffset, total * this.vocabSize);
  }

  /** Where the rows and their values are, once the stream comes to them; both in memory that is free until then. */
  #uploadEmbeddings({ embeddings }: StepInput): CudaReplacedRows | undefined {
    if (embeddings === undefined || embeddings.rows.length === 0) return undefined;
    const { rows, values } = embeddings;
    const { memory, model } = this.#decoder;
    const stored = storedValues(values, model.type);
    this.device.stream.copyToDevice(memory.mlpBranch, rows, rows.byteLength);
    this.device.stream.copyToDevice(memory.branch, stored, stored.byteLength);
    this.device.stream.synchronize(); // the arrays are pageable and may go
    return { rows: memory.mlpBranch, values: memory.branch, count: rows.length };
  }

  #neededBlocks({ sequences }: StepInput): number {
    let longest = 1;
    for (const { contextLength } of sequences) longest = Math.max(longest, contextLength);
    return Math.ceil(longest / this.blockSize);
  }

  #checkBounds({ tokenIds, sequences }: StepInput): void {
    const { maxTokens, maxSequences } = this.#bounds;
    if (tokenIds.length > maxTokens || sequences.length > maxSequences) {
      throw new Error(
        `step: expected at most ${maxTokens} tokens of ${maxSequences} sequences, got ${tokenIds.length} of ${sequences.length}`,
      );
    }
    if (sequences.some(({ adapter }) => adapter !== undefined))
      throw new Error("step: adapters do not run on a GPU yet");
  }

  #copyBlocks(pairs: Int32Array | undefined): void {
    if (pairs === undefined) return;
    const { model } = this.#decoder;
    const { numKvHeads, headDim } = model.config;
    const bytes = this.blockSize * numKvHeads * headDim * (model.type === "bf16" ? 2 : 4);
    for (const { keys, values } of model.caches) {
      for (let i = 0; i < pairs.length; i += 2) {
        const from = BigInt((pairs[i] ?? 0) * bytes);
        const to = BigInt((pairs[i + 1] ?? 0) * bytes);
        this.device.stream.copyOnDevice(keys + to, keys + from, bytes);
        this.device.stream.copyOnDevice(values + to, values + from, bytes);
      }
    }
  }

  #dropGraphs(): void {
    if (this.#graphs.size > 0) this.device.stream.synchronize();
    for (const graph of this.#graphs.values()) graph.close();
    this.#graphs.clear();
  }

  async #closeAfter(running: Promise<unknown> | undefined): Promise<void> {
    await running?.catch(() => undefined);
    this.#dropGraphs();
    this.products.close();
    this.#timer.close();
    this.#done.close();
    this.#numbers?.pinned.close();
    this.#numbers?.buffer.close();
    this.#logits?.close();
    this.#decoder.close();
    this.device.close();
  }
}

function countQueries({ sequences }: StepInput): { readonly numDecoding: number; readonly maxQueryLength: number } {
  let numDecoding = 0;
  while (sequences[numDecoding]?.queryLength === 1) numDecoding += 1;
  let maxQueryLength = 1;
  for (const { queryLength } of sequences) maxQueryLength = Math.max(maxQueryLength, queryLength);
  return { numDecoding, maxQueryLength };
}

/** Every sequence adds one token and wants its logits. */
function isDecodeStep(input: StepInput): boolean {
  const { tokenIds, sequences, embeddings } = input;
  return tokenIds.length === sequences.length && embeddings === undefined && keepsRows(input);
}

function keepsRows({ tokenIds, logitRows }: StepInput): boolean {
  return logitRows.length === tokenIds.length && logitRows.every((row, i) => row === i);
}

function storedValues(values: Float32Array, type: ElemType): Float32Array | Uint16Array {
  if (type === "f32") return values;
  const stored = new Uint16Array(values.length);
  convertFloats(
    "F32",
    new Uint8Array(values.buffer, values.byteOffset, values.byteLength),
    "bf16",
    new Uint8Array(stored.buffer),
  );
  return stored;
}
