/**
 * A context of libllama: the memory of its sequences, its threads, and the calls that compute. One call at a time. It
 * decides neither which sequence is what nor what is computed. Source: llama.h of llama.cpp 0.5.0.
 */
import { type Address, copyFromMemory, openLibrary } from "../../native/ffi.ts";
import { expectAddress, GGML_TYPES, threadpoolParams } from "../../native/ggml/ggml.ts";
import type { LlamaContextParams } from "../../native/llama/functions.ts";
import type { LlamaTokenBatch } from "./llama-batch.ts";
import { asynchronously, type LlamaModel, reasonOf } from "./llama-model.ts";

/** enum llama_pooling_type. */
export const POOLINGS = { unspecified: -1, none: 0, mean: 1, cls: 2, last: 3, rank: 4 } as const;
export type LlamaPooling = keyof typeof POOLINGS;

export interface LlamaContextOptions {
  /** Tokens that the memory holds, of all sequences together. */
  readonly numCells: number;
  readonly maxSequences: number;
  /** Tokens of a call. */
  readonly maxBatchTokens: number;
  /** Rows of logits of a call. */
  readonly maxOutputs: number;
  readonly numThreads: number;
  readonly cacheType?: "f32" | "f16" | "q8_0" | undefined;
  /** It gives embeddings, pooled this way, and no logits. Absent: logits. */
  readonly pooling?: LlamaPooling | undefined;
}

/** Results of llama_decode. */
export const DECODED = 0;
export const NO_ROOM = 1;
export const ABORTED = 2;

/** Worker threads of ggml spin for one unit after a step; see the same in CpuDevice. */
const POLLING = 1;
/**
 * llama_flash_attn_type of each type of cache. Blocks of eight bits need flash attention, and f32 is asked for by those who
 * want no rounding: flash attention on the CPU moves logits by up to 0.015 in the models of our tests.
 */
const FLASH_ATTENTION = { f32: 0, f16: -1, q8_0: 1 } as const;
/** Tokens of an encoder's call up to which scores of all pairs fit in memory, so that flash attention is not needed. */
const MAX_EXACT_TOKENS = 2048;
/** Tokens that are computed at a time: llama.cpp's default. */
const MAX_MICRO_BATCH = 512;

export class LlamaContext {
  readonly #model: LlamaModel;
  readonly #address: Address;
  readonly #memory: Address | null;
  readonly #threadpool: Address;
  /** A C text: empty while calls may run. @see abortFunction */
  readonly #abort: Uint8Array;
  #inFlight: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  private constructor(model: LlamaModel, address: Address, threadpool: Address) {
    this.#model = model;
    this.#address = address;
    this.#threadpool = threadpool;
    this.#memory = model.llama.functions.memory(address);
    this.#abort = new Uint8Array(8);
    model.llama.functions.attachThreadpool(address, threadpool, threadpool);
    model.llama.functions.setAbortCallback(address, abortFunction(), this.#abort);
  }

  /** @throws Error with libllama's reason: mostly too little memory */
  static async create(model: LlamaModel, options: LlamaContextOptions): Promise<LlamaContext> {
    const { functions, ggml } = model.llama;
    const params = paramsOf(functions.contextDefaults(), options);
    const { result: address, errors } = await model.llama.logged(() =>
      asynchronously<Address | null>((done) => functions.createContext.async(model.address, params, done)),
    );
    if (address === null) {
      const wanted = `${options.numCells} tokens of ${options.maxSequences} sequences`;
      throw new Error(`${model.path}: libllama cannot make a context of ${wanted}: ${reasonOf(errors)}`);
    }
    const threads = ggml.cpu.threadpoolNew(threadpoolParams(ggml.base, options.numThreads, POLLING));
    return new LlamaContext(model, address, expectAddress(threads, "threads"));
  }

  /** Whether it keeps sequences between calls. An encoder does not. */
  get hasMemory(): boolean {
    return this.#memory !== null;
  }

  /** DECODED, NO_ROOM or ABORTED. @throws Error with libllama's reason when the call failed otherwise */
  async decode(batch: LlamaTokenBatch): Promise<number> {
    const { functions } = this.#model.llama;
    return this.#call(batch, (done) => functions.decode.async(this.#address, batch.asStruct(), done));
  }

  /** For encoders. @throws Error with libllama's reason */
  async encode(batch: LlamaTokenBatch): Promise<number> {
    const { functions } = this.#model.llama;
    return this.#call(batch, (done) => functions.encode.async(this.#address, batch.asStruct(), done));
  }

  /** Copies the row of a token of the last batch whose output was wanted. */
  readLogits(index: number, into: Float32Array): void {
    this.#copy(this.#model.llama.functions.logitsOf(this.#address, index), `logits of token ${index}`, into);
  }

  /** The pooled embedding of a sequence of the last batch, or its classes where the pooling is `rank`. */
  readSequence(sequence: number, into: Float32Array): void {
    const found = this.#model.llama.functions.sequenceEmbeddings(this.#address, sequence);
    this.#copy(found, `embedding of sequence ${sequence}`, into);
  }

  /** The embedding of a token of the last batch, without pooling. */
  readToken(index: number, into: Float32Array): void {
    this.#copy(this.#model.llama.functions.embeddingsOf(this.#address, index), `embedding of token ${index}`, into);
  }

  get pooling(): number {
    return this.#model.llama.functions.poolingType(this.#address);
  }

  /**
   * Removes the tokens of a sequence at positions from `from` to `to`, without an end where that is negative. False: only
   * all of it can be removed, and nothing was.
   */
  remove(sequence: number, from: number, to: number): boolean {
    return this.#memory !== null && this.#model.llama.functions.removeFrom(this.#memory, sequence, from, to);
  }

  /** Gives a sequence without tokens the first ones of another; `end` undefined: all. Cells are shared, not copied. */
  copy(from: number, to: number, end: number | undefined): void {
    if (this.#memory === null) return;
    this.#model.llama.functions.copySequence(this.#memory, from, to, end === undefined ? -1 : 0, end ?? -1);
  }

  clear(): void {
    if (this.#memory !== null) this.#model.llama.functions.clearMemory(this.#memory, false);
  }

  /** Low-rank adapters that the next calls add, each at its scale. @throws Error when libllama refuses */
  setAdapters(adapters: readonly Address[], scales: readonly number[]): void {
    const list = BigUint64Array.from(adapters);
    const status = this.#model.llama.functions.setAdapters(
      this.#address,
      list.length === 0 ? null : list,
      list.length,
      list.length === 0 ? null : Float32Array.from(scales),
    );
    if (status !== 0) throw new Error(`libllama could not set ${adapters.length} adapters: status ${status}`);
  }

  /** Ends the call in flight within an operation, waits for it, and frees everything but the model. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#abort[0] = 1;
    await this.#inFlight.catch(() => undefined);
    this.#model.llama.functions.freeContext(this.#address);
    this.#model.llama.ggml.cpu.threadpoolFree(this.#threadpool);
  }

  async #call(
    batch: LlamaTokenBatch,
    start: (done: (error: unknown, status: number) => void) => void,
  ): Promise<number> {
    if (this.#isClosed) throw new Error("the llama context is closed");
    const running = this.#model.llama.logged(() => asynchronously<number>(start));
    this.#inFlight = running;
    const { result, errors } = await running;
    if (result === DECODED || result === NO_ROOM || result === ABORTED) return result;
    throw new Error(`libllama could not compute ${batch.length} tokens: status ${result}: ${reasonOf(errors)}`);
  }

  #copy(address: Address | null, title: string, into: Float32Array): void {
    if (address === null) throw new Error(`libllama has no ${title}`);
    copyFromMemory(new Uint8Array(into.buffer, into.byteOffset, into.byteLength), address);
  }
}

/**
 * bool (*)(void *) without code of our own: strlen of the data, whose low byte is 0 for an empty text and 1 for a text of
 * one byte. ggml asks before each operation, on threads of its own, where JavaScript could not answer.
 */
function abortFunction(): Address {
  return openLibrary(null).symbol("strlen");
}

function paramsOf(defaults: LlamaContextParams, options: LlamaContextOptions): LlamaContextParams {
  const { numCells, maxSequences, maxBatchTokens, maxOutputs, numThreads, cacheType = "f16", pooling } = options;
  const isEncoding = pooling !== undefined;
  return {
    ...defaults,
    n_ctx: numCells,
    n_batch: maxBatchTokens,
    // Encoders see all tokens of a text at once.
    n_ubatch: isEncoding ? maxBatchTokens : Math.min(maxBatchTokens, MAX_MICRO_BATCH),
    n_seq_max: maxSequences,
    n_outputs_max: isEncoding ? maxBatchTokens : maxOutputs,
    n_threads: numThreads,
    n_threads_batch: numThreads,
    pooling_type: POOLINGS[pooling ?? "unspecified"],
    flash_attn_type:
      isEncoding && maxBatchTokens <= MAX_EXACT_TOKENS ? FLASH_ATTENTION.f32 : FLASH_ATTENTION[cacheType],
    type_k: GGML_TYPES[cacheType],
    type_v: GGML_TYPES[cacheType],
    embeddings: isEncoding,
    swa_full: true, // or a prefix could not be taken up again
    kv_unified: true, // or each sequence had a fixed share of the cells
  };
}
