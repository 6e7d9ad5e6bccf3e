/**
 * Vectors of texts by a Hugging Face folder on our own engine: encoders, and decoders that were trained for embeddings. Texts
 * share passes up to a number of tokens, without padding; a small cache holds the keys and values of one pass.
 */
import { CpuDevice } from "../../device/cpu/cpu-device.ts";
import { CpuGraph } from "../../device/cpu/cpu-graph.ts";
import { type ModelFiles, openModelFiles } from "../../formats/hf/model-files.ts";
import type { Tokenizer } from "../../formats/tokenizer/tokenizer.ts";
import { loadTokenizer } from "../../formats/tokenizer/tokenizer-files.ts";
import { parseEncoderConfig } from "../../models/config/parse-decoder-config.ts";
import { ropeFactors } from "../../models/config/rope-factors.ts";
import { numDecoderTensors, recordHidden } from "../../models/cpu/decoder.ts";
import type { DecoderModel, DecoderSequence } from "../../models/cpu/decoder-model.ts";
import { loadDecoderWeights } from "../../models/cpu/weights.ts";
import { CpuKvCache } from "../cpu/kv-cache.ts";
import { pooledRows, poolRows } from "./pool-rows.ts";
import { type EncoderHead, type EncoderPooling, readHead } from "./read-head.ts";
import { applyLayers, outputsOf } from "./vector-layers.ts";

export interface TextEncoderOptions {
  /** A Hugging Face folder. */
  readonly path: string;
  /** Undefined: as the folder says, else the mean. "rank": the head of a classification model. */
  readonly pooling?: EncoderPooling | "rank" | undefined;
  /** Tokens of a pass, and of the longest text; 0: those that the model allows, at most DEFAULT_TOKENS. */
  readonly maxTokens?: number | undefined;
  readonly numThreads?: number | undefined;
}

const DEFAULT_TOKENS = 8192;

interface TokenRow {
  readonly ids: Int32Array;
  readonly segments: Int32Array | undefined;
}

interface Loaded {
  readonly device: CpuDevice;
  readonly model: DecoderModel;
  readonly cache: CpuKvCache;
  readonly head: EncoderHead;
  readonly tokenizer: Tokenizer;
  readonly description: string;
}

export class TextEncoder {
  /** Numbers of a vector, or classes. */
  readonly width: number;
  readonly maxTokens: number;
  readonly description: string;
  /** Its vectors are scores. */
  readonly isClassifier: boolean;
  readonly #loaded: Loaded;
  readonly #graph: CpuGraph;
  #queue: Promise<unknown> = Promise.resolve();

  private constructor(loaded: Loaded, maxTokens: number) {
    this.#loaded = loaded;
    this.maxTokens = maxTokens;
    this.description = loaded.description;
    this.isClassifier = loaded.head.isClassifier;
    this.width = outputsOf(loaded.head.layers, loaded.model.config.hiddenSize);
    this.#graph = new CpuGraph(loaded.device);
  }

  /** @throws Error naming the file, field or tensor that does not fit */
  static async open(options: TextEncoderOptions): Promise<TextEncoder> {
    const files = await openModelFiles(options.path);
    try {
      return await TextEncoder.#load(files, options);
    } finally {
      await files.tensors.close();
    }
  }

  static async #load(files: ModelFiles, options: TextEncoderOptions): Promise<TextEncoder> {
    const { path, pooling, maxTokens = 0, numThreads = 0 } = options;
    const parsed = parseEncoderConfig(files.files);
    const { config } = parsed;
    if (config.recurrent !== undefined) throw new Error(`${path}: models with recurrent layers give no vectors here`);
    const tokenizer = await loadTokenizer(path);
    const numTokens = Math.min(maxTokens > 0 ? maxTokens : DEFAULT_TOKENS, config.maxPositions);
    const ropes = config.ropes.map((rope) => ropeFactors(rope, numTokens));
    const device = new CpuDevice({ numThreads: numThreads > 0 ? numThreads : undefined });
    try {
      const head = chooseHead(await readHead(device, path, files, config.hiddenSize), pooling, path);
      const weights = await loadDecoderWeights(device, parsed, files.tensors, undefined, ropes);
      const shape = { numBlocks: numTokens, numHostBlocks: 0, blockSize: 1, type: "f32" as const };
      const cache = new CpuKvCache(device, config, shape);
      const ropeMagnitudes = ropes.map(({ magnitude }) => magnitude);
      const model = { config, weights, ropeMagnitudes, caches: cache.layers, states: [], adapters: new Map() };
      const description = `${config.numLayers} layers of ${config.hiddenSize}, ${head.pooling} pooling`;
      return new TextEncoder({ device, model, cache, head, tokenizer, description }, numTokens);
    } catch (error) {
      await device.close();
      throw error;
    }
  }

  /** [texts.length, width]. Calls wait for each other. @throws Error naming the text that is too long */
  encode(texts: readonly (readonly [text: string, pair?: string])[]): Promise<Float32Array> {
    const result = this.#queue.then(() =>
      this.#encodeAll(texts.map(([text, pair], i) => this.#tokensOf(text, pair, i))),
    );
    this.#queue = result.catch(() => undefined);
    return result;
  }

  async close(): Promise<void> {
    await this.#queue;
    this.#graph.close();
    this.#loaded.cache.close();
    this.#loaded.model.weights.close();
    await this.#loaded.device.close();
  }

  async #encodeAll(rows: readonly TokenRow[]): Promise<Float32Array> {
    const values = new Float32Array(rows.length * this.width);
    for (let first = 0; first < rows.length; ) {
      let [end, numTokens] = [first, 0];
      while (end < rows.length && numTokens + (rows[end]?.ids.length ?? 0) <= this.maxTokens) {
        numTokens += rows[end]?.ids.length ?? 0;
        end += 1;
      }
      const vectors = await this.#encodeRows(rows.slice(first, end), numTokens);
      for (const [i, vector] of vectors.entries()) values.set(vector, (first + i) * this.width);
      first = end;
    }
    return values;
  }

  /** One pass over texts that fit it. */
  async #encodeRows(rows: readonly TokenRow[], numTokens: number): Promise<readonly Float32Array[]> {
    const { model, head } = this.#loaded;
    const tokenIds = new Int32Array(numTokens);
    const positions = new Int32Array(numTokens);
    const segments = new Int32Array(numTokens);
    const sequences: DecoderSequence[] = [];
    let at = 0;
    for (const { ids, segments: own } of rows) {
      tokenIds.set(ids, at);
      segments.set(own ?? new Int32Array(ids.length), at);
      for (let i = 0; i < ids.length; i++) positions[at + i] = i;
      const blockTable = Int32Array.from(ids, (_, i) => at + i);
      sequences.push({ queryStart: at, queryLength: ids.length, contextLength: ids.length, blockTable });
      at += ids.length;
    }
    const logitRows = pooledRows(head.pooling, sequences);
    const batch = {
      tokenIds,
      positions,
      segments,
      slots: Int32Array.from(tokenIds, (_, i) => i),
      sequences,
      logitRows,
    };
    this.#graph.begin(numDecoderTensors(model.config, sequences));
    const hidden = recordHidden(this.#graph, model, { ...batch, blockSize: 1 });
    await this.#graph.run(numTokens);
    const states = new Float32Array(logitRows.length * model.config.hiddenSize);
    this.#graph.read(hidden, states);
    const pooled = poolRows(head.pooling, states, sequences, model.config.hiddenSize);
    return pooled.map((vector) => applyLayers(head.layers, vector));
  }

  #tokensOf(text: string, pair: string | undefined, index: number): TokenRow {
    const { tokenizer, model } = this.#loaded;
    const row =
      pair === undefined
        ? { ids: tokenizer.encode(text, { addSpecialTokens: true }), segments: undefined }
        : tokenizer.encodePair(text, pair);
    const { vocabSize, numSegments } = model.config;
    const count = row.ids.length;
    if (count === 0 || count > this.maxTokens)
      throw new Error(`text ${index}: expected 1 to ${this.maxTokens} tokens, got ${count === 0 ? "none" : count}`);
    const wrong = row.ids.find((id) => id >= vocabSize);
    if (wrong !== undefined) throw new Error(`text ${index}: token ${wrong} is none of the model's ${vocabSize}`);
    const isKnown = row.segments?.every((segment) => segment < Math.max(1, numSegments)) ?? true;
    return isKnown ? row : { ...row, segments: undefined };
  }
}

/** @throws Error when the parameter asks for a head that the folder does not have */
function chooseHead(head: EncoderHead, pooling: TextEncoderOptions["pooling"], path: string): EncoderHead {
  if (pooling === undefined) return head;
  if (pooling === "rank") {
    if (head.isClassifier) return head;
    throw new Error(`${path}: pooling 'rank' takes a model with a head: expected a class ForSequenceClassification`);
  }
  // Another pooling gives vectors, also of models with a head for scores.
  return { pooling, layers: head.isClassifier ? [] : head.layers, isClassifier: false };
}
