/**
 * A GGUF model that libllama holds, and what it says of itself. Loading runs off the event loop. It knows no sequences.
 * Source: llama.h of llama.cpp 0.5.0.
 */
import type { Address } from "../../native/ffi.ts";
import { type Llama, openLlama } from "../../native/llama/llama.ts";

export interface LlamaModelOptions {
  /** A GGUF file; the first one of a model in parts. */
  readonly path: string;
  /** Layers on GPUs that the library drives: 0 = none, negative = all. */
  readonly numGpuLayers?: number | undefined;
  /** The vocabulary alone. */
  readonly vocabularyOnly?: boolean | undefined;
  readonly llama?: Llama | undefined;
}

/** Figures of a model, from its metadata. */
export interface LlamaModelFacts {
  /** Architecture, size and type, as libllama puts them: "llama 7B Q4_K - Medium". */
  readonly description: string;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  /** Numbers of an embedding that it gives. */
  readonly outputSize: number;
  readonly numClasses: number;
  /** Context of its training. */
  readonly maxPositions: number;
  /** Bytes of all tensors. */
  readonly numBytes: number;
  readonly hasEncoder: boolean;
  readonly hasDecoder: boolean;
  readonly isDiffusion: boolean;
}

const MAX_DESCRIPTION_BYTES = 256;

export class LlamaModel {
  readonly llama: Llama;
  readonly path: string;
  readonly address: Address;
  readonly vocabulary: Address;
  readonly facts: LlamaModelFacts;
  #isClosed = false;

  private constructor(llama: Llama, path: string, address: Address) {
    this.llama = llama;
    this.path = path;
    this.address = address;
    this.vocabulary = llama.functions.vocabulary(address);
    this.facts = readFacts(llama, address, this.vocabulary);
  }

  /** @throws Error with the file and libllama's reason */
  static async load({ path, numGpuLayers = 0, vocabularyOnly = false, llama }: LlamaModelOptions): Promise<LlamaModel> {
    const library = llama ?? openLlama();
    const { functions } = library;
    const params = { ...functions.modelDefaults(), n_gpu_layers: numGpuLayers, vocab_only: vocabularyOnly };
    const { result: address, errors } = await library.logged(() =>
      asynchronously<Address | null>((done) => functions.loadModel.async(path, params, done)),
    );
    if (address !== null) return new LlamaModel(library, path, address);
    throw new Error(`${path}: libllama ${library.version} cannot load it: ${reasonOf(errors)}`);
  }

  /** Ids after which the model has nothing to say. */
  endIds(): readonly number[] {
    const { functions } = this.llama;
    const ids: number[] = [];
    for (let id = 0; id < this.facts.vocabSize; id++) {
      if (functions.isEndOfGeneration(this.vocabulary, id)) ids.push(id);
    }
    return ids;
  }

  /** A LoRA adapter in a GGUF file, valid until it is freed or the model is closed. @throws Error with libllama's reason */
  async loadAdapter(path: string): Promise<Address> {
    const { result: adapter, errors } = await this.llama.logged(() =>
      asynchronously<Address | null>((done) => this.llama.functions.loadAdapter.async(this.address, path, done)),
    );
    if (adapter !== null) return adapter;
    throw new Error(`${path}: libllama ${this.llama.version} cannot load the adapter: ${reasonOf(errors)}`);
  }

  /** No context may have it set. */
  freeAdapter(adapter: Address): void {
    this.llama.functions.freeAdapter(adapter);
  }

  /** Once its contexts are closed. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.llama.functions.freeModel(this.address);
  }
}

export type { Llama };
export { openLlama };

/** A foreign call that runs on libuv's thread pool. */
export function asynchronously<T>(call: (done: (error: unknown, result: T) => void) => void): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    call((error, result) => {
      if (error !== null && error !== undefined) reject(error);
      else resolve(result);
    });
  });
}

/** The first errors name the cause, the last ones the functions that gave up. */
export function reasonOf(errors: readonly string[]): string {
  const causes = errors.map((line) => line.replace(/^[a-z_]+: (?:error loading model: )?/, ""));
  return causes.slice(0, 2).join("; ") || "it gave no reason";
}

function readFacts({ functions }: Llama, model: Address, vocabulary: Address): LlamaModelFacts {
  const text = Buffer.alloc(MAX_DESCRIPTION_BYTES);
  const length = functions.describe(model, text, MAX_DESCRIPTION_BYTES);
  return {
    description: text.toString("utf8", 0, Math.max(0, Math.min(length, MAX_DESCRIPTION_BYTES - 1))),
    vocabSize: functions.numTokens(vocabulary),
    hiddenSize: functions.embeddingLength(model),
    outputSize: functions.outputLength(model),
    numClasses: functions.numClasses(model),
    maxPositions: functions.trainedContext(model),
    numBytes: Number(functions.modelBytes(model)),
    hasEncoder: functions.hasEncoder(model),
    hasDecoder: functions.hasDecoder(model),
    isDiffusion: functions.isDiffusion(model),
  };
}
