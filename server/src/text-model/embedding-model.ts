/**
 * A model that gives numbers for texts: vectors, class scores, or a score for a pair. Texts go in batches of the model's
 * own size, as requests of the model that was named.
 */
import { bf16ToNumber } from "../core/bf16.ts";
import { widenFp16 } from "../core/fp16.ts";
import type { ServedModel } from "../core/model-server.ts";
import { ServerError } from "../core/server-error.ts";
import type { Tensor } from "../core/tensor.ts";
import type { Tokenizer } from "../formats/tokenizer/tokenizer.ts";
import type { EmbeddingSignature } from "./embedding-signature.ts";
import { textRowsTensor } from "./input-tensors.ts";
import type { ModelAssets } from "./model-assets.ts";
import { Responses } from "./responses.ts";
import { TextInferRequest } from "./text-infer-request.ts";
import type { CallFacts, Prompt } from "./text-request.ts";

/** Batches of one request that run at once. */
const MAX_CONCURRENT = 8;

export interface TextPair {
  readonly text: string;
  readonly pair: string;
}

export class EmbeddingModel {
  readonly name: string;
  readonly served: ServedModel;
  readonly signature: EmbeddingSignature;
  readonly assets: ModelAssets;

  constructor(served: ServedModel, signature: EmbeddingSignature, assets: ModelAssets) {
    this.name = served.name;
    this.served = served;
    this.signature = signature;
    this.assets = assets;
  }

  get tokenizer(): Tokenizer | undefined {
    return this.assets.tokenizer;
  }

  /** @throws ServerError for token ids without a tokenizer */
  textOf(prompt: Prompt): string {
    if ("text" in prompt) return prompt.text;
    if (this.tokenizer !== undefined) return this.tokenizer.decode(prompt.tokens, { skipSpecialTokens: true });
    const text = `model '${this.name}' takes texts: it has no tokenizer for token ids (parameter 'tokenizer_dir')`;
    throw new ServerError("unsupported", text);
  }

  /** Tokens of the texts; 0 for a model without a tokenizer. */
  countTokens(texts: readonly string[]): number {
    let count = 0;
    for (const text of texts) count += this.tokenizer?.encode(text, { addSpecialTokens: true }).length ?? 0;
    return count;
  }

  /** One row of numbers for each text, in order. @throws ServerError of the model */
  embed(texts: readonly string[], call: CallFacts): Promise<readonly Float32Array[]> {
    return this.#run(texts, (batch) => [this.#column(this.signature.text, batch)], call);
  }

  /** One row of numbers for each pair, in order. @throws ServerError of the model */
  scorePairs(pairs: readonly TextPair[], call: CallFacts): Promise<readonly Float32Array[]> {
    const { text, pair } = this.signature;
    if (pair === undefined) throw new ServerError("unsupported", `model '${this.name}' takes no pairs of texts`);
    const columns = (batch: readonly TextPair[]): Tensor[] => [
      this.#column(
        text,
        batch.map((each) => each.text),
      ),
      this.#column(
        pair,
        batch.map((each) => each.pair),
      ),
    ];
    return this.#run(pairs, columns, call);
  }

  async #run<T>(
    rows: readonly T[],
    inputsOf: (batch: readonly T[]) => Tensor[],
    call: CallFacts,
  ): Promise<readonly Float32Array[]> {
    const size = Math.max(1, this.served.config.max_batch_size);
    const starts = Array.from({ length: Math.ceil(rows.length / size) }, (_, i) => i * size);
    const results: (readonly Float32Array[])[] = [];
    for (let i = 0; i < starts.length; i += MAX_CONCURRENT) {
      const batches = starts.slice(i, i + MAX_CONCURRENT).map((start) => rows.slice(start, start + size));
      results.push(...(await Promise.all(batches.map((batch) => this.#batch(inputsOf(batch), batch.length, call)))));
    }
    return results.flat();
  }

  async #batch(inputs: readonly Tensor[], numRows: number, call: CallFacts): Promise<readonly Float32Array[]> {
    const { output } = this.signature;
    const parts = { modelName: this.name, inputs, outputs: [output.name], priority: 0 };
    const responses = new Responses(this.served, new TextInferRequest(parts, call));
    let values: Float32Array | undefined;
    for (let response = await responses.next(); response !== undefined; response = await responses.next()) {
      const tensor = response.outputs.find(({ name }) => name === output.name);
      if (tensor !== undefined) values ??= numbers(tensor);
    }
    if (values === undefined || values.length === 0 || values.length % numRows !== 0) {
      const count = values?.length ?? 0;
      throw new ServerError("internal", `model '${this.name}' gave ${count} numbers for ${numRows} texts`);
    }
    const all = values;
    const width = all.length / numRows;
    return Array.from({ length: numRows }, (_, row) => all.subarray(row * width, (row + 1) * width));
  }

  #column(input: EmbeddingSignature["text"], texts: readonly string[]): Tensor {
    return textRowsTensor(input, texts, this.signature.isBatching);
  }
}

function numbers({ data, datatype, name }: Tensor): Float32Array {
  const bytes = new Uint8Array(data); // a copy, which lies at an even address
  switch (datatype) {
    case "FP32":
      return new Float32Array(bytes.buffer);
    case "FP64":
      return Float32Array.from(new Float64Array(bytes.buffer));
    case "FP16":
      return widenFp16(new Uint16Array(bytes.buffer));
    case "BF16":
      return Float32Array.from(new Uint16Array(bytes.buffer), bf16ToNumber);
    default:
      throw new ServerError("internal", `output '${name}' is ${datatype}, expected floating-point numbers`);
  }
}

/** Cosine of the angle between two vectors; 0 when one of them is 0. */
export function cosine(a: Float32Array, b: Float32Array): number {
  let dot = 0;
  let sumA = 0;
  let sumB = 0;
  for (let i = 0; i < a.length; i++) {
    const x = a[i] ?? 0;
    const y = b[i] ?? 0;
    dot += x * y;
    sumA += x * x;
    sumB += y * y;
  }
  const norm = Math.sqrt(sumA) * Math.sqrt(sumB);
  return norm === 0 ? 0 : dot / norm;
}

/** The first numbers of a vector, of length 1 (Kusupati et al., "Matryoshka representation learning", 2022). */
export function shortened(vector: Float32Array, dimensions: number): Float32Array {
  const part = vector.slice(0, dimensions);
  const norm = Math.sqrt(part.reduce((sum, value) => sum + value * value, 0));
  return norm === 0 ? part : part.map((value) => value / norm);
}

export function softmax(values: Float32Array): Float32Array {
  const largest = values.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY);
  const powers = values.map((value) => Math.exp(value - largest));
  const sum = powers.reduce((total, value) => total + value, 0);
  return powers.map((value) => value / sum);
}

export function sigmoid(value: number): number {
  return 1 / (1 + Math.exp(-value));
}
