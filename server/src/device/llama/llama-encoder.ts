/**
 * Vectors of texts by a GGUF model: encoders (BERT and its kin) and decoders that were trained for embeddings. Texts share
 * calls up to a number of tokens. Source: llama.h of llama.cpp 0.5.0, and its examples/embedding for pairs of texts.
 */
import { availableProcessors } from "../cpu/available-processors.ts";
import { LlamaTokenBatch } from "./llama-batch.ts";
import { DECODED, LlamaContext, type LlamaPooling, POOLINGS } from "./llama-context.ts";
import { LlamaModel } from "./llama-model.ts";
import { tokenize, tokenizePair } from "./llama-tokens.ts";

export interface LlamaEncoderOptions {
  readonly path: string;
  /** Undefined: as the file says, or else the mean. */
  readonly pooling?: LlamaPooling | undefined;
  /** Tokens of a call, and of the longest text; 0: the model's context, at most DEFAULT_TOKENS. */
  readonly maxTokens?: number | undefined;
  readonly numThreads?: number | undefined;
}

const DEFAULT_TOKENS = 8192;
/** Texts of a call. */
const MAX_TEXTS = 64;
const MAX_THREADS = 8;

export class LlamaEncoder {
  /** Numbers of a vector; of a rerank model its classes. */
  readonly width: number;
  readonly maxTokens: number;
  readonly #model: LlamaModel;
  readonly #context: LlamaContext;
  readonly #batch: LlamaTokenBatch;
  #queue: Promise<unknown> = Promise.resolve();

  private constructor(model: LlamaModel, context: LlamaContext, maxTokens: number) {
    const { outputSize, numClasses } = model.facts;
    this.#model = model;
    this.#context = context;
    this.maxTokens = maxTokens;
    this.width = context.pooling === POOLINGS.rank ? numClasses : outputSize;
    this.#batch = new LlamaTokenBatch(maxTokens);
  }

  get description(): string {
    return this.#model.facts.description;
  }

  /** @throws Error with the file and libllama's reason */
  static async open({ path, pooling, maxTokens = 0, numThreads = 0 }: LlamaEncoderOptions): Promise<LlamaEncoder> {
    const model = await LlamaModel.load({ path });
    try {
      const { hasEncoder, hasDecoder, maxPositions, description } = model.facts;
      if (hasEncoder && hasDecoder)
        throw new Error(`${path}: ${description}: expected an encoder or a decoder, got both`);
      const numTokens = Math.min(maxTokens > 0 ? maxTokens : DEFAULT_TOKENS, maxPositions);
      const context = await openContext(model, pooling, numTokens, numThreads);
      return new LlamaEncoder(model, context, numTokens);
    } catch (error) {
      model.close();
      throw error;
    }
  }

  /** [texts.length, width]. Calls wait for each other. @throws Error naming the text that is too long */
  encode(texts: readonly (readonly [text: string, pair?: string])[]): Promise<Float32Array> {
    const result = this.#queue.then(() => this.#encodeAll(texts));
    this.#queue = result.catch(() => undefined);
    return result;
  }

  async close(): Promise<void> {
    await this.#queue;
    await this.#context.close();
    this.#model.close();
  }

  async #encodeAll(texts: readonly (readonly [text: string, pair?: string])[]): Promise<Float32Array> {
    const rows = texts.map(([text, pair], i) => this.#tokensOf(text, pair, i));
    const values = new Float32Array(texts.length * this.width);
    for (let first = 0; first < rows.length; ) {
      const end = this.#endOfCall(rows, first);
      await this.#encodeRows(rows.slice(first, end), values.subarray(first * this.width, end * this.width));
      first = end;
    }
    return values;
  }

  #endOfCall(rows: readonly Int32Array[], first: number): number {
    let end = first;
    let numTokens = 0;
    while (end < rows.length && end - first < MAX_TEXTS && numTokens + (rows[end]?.length ?? 0) <= this.maxTokens) {
      numTokens += rows[end]?.length ?? 0;
      end += 1;
    }
    return end;
  }

  async #encodeRows(rows: readonly Int32Array[], into: Float32Array): Promise<void> {
    this.#context.clear();
    this.#batch.clear();
    for (const [sequence, tokens] of rows.entries()) {
      for (const [position, token] of tokens.entries()) this.#batch.add(token, position, sequence, true);
    }
    const status = await (this.#context.hasMemory
      ? this.#context.decode(this.#batch)
      : this.#context.encode(this.#batch));
    if (status !== DECODED) throw new Error(`libllama could not encode ${rows.length} texts: status ${status}`);
    for (const sequence of rows.keys()) {
      this.#context.readSequence(sequence, into.subarray(sequence * this.width, (sequence + 1) * this.width));
    }
  }

  /** With the special tokens of the model around a text, and between the two of a pair. */
  #tokensOf(text: string, pair: string | undefined, index: number): Int32Array {
    const tokens = pair === undefined ? tokenize(this.#model, text, true) : tokenizePair(this.#model, text, pair);
    if (tokens.length > 0 && tokens.length <= this.maxTokens) return tokens;
    const got = tokens.length === 0 ? "none" : tokens.length;
    throw new Error(`text ${index}: expected 1 to ${this.maxTokens} tokens, got ${got}`);
  }
}

async function openContext(
  model: LlamaModel,
  pooling: LlamaPooling | undefined,
  numTokens: number,
  numThreads: number,
): Promise<LlamaContext> {
  const threads = numThreads > 0 ? numThreads : Math.min(MAX_THREADS, availableProcessors());
  const options = { maxSequences: MAX_TEXTS, maxBatchTokens: numTokens, maxOutputs: numTokens, numThreads: threads };
  const context = await LlamaContext.create(model, {
    ...options,
    numCells: numTokens,
    pooling: pooling ?? "unspecified",
  });
  if (context.pooling !== POOLINGS.none) return context;
  await context.close(); // a file that says nothing
  return LlamaContext.create(model, { ...options, numCells: numTokens, pooling: "mean" });
}
