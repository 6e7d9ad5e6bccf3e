/**
 * Reads the JSON of a KServe V2 inference request (Open Inference Protocol, "Inference Request JSON Object"). It
 * checks syntax only and returns tensors as bytes; the caller reports missing members and wrong types, in the order of
 * its protocol. A generator: it yields now and then in long arrays, so that a long text can be read in slices.
 */
import { type JsonInferTensor, JsonInferTensorReader, type JsonParameters } from "./infer-tensor.ts";
import { type JsonLimits, JsonReader, OPEN_ARRAY, OPEN_OBJECT } from "./reader.ts";
import { type JsonShallow, readShallow } from "./value.ts";

export type JsonInferInput = JsonInferTensor;

export interface JsonInferOutput {
  readonly name: JsonShallow | undefined;
  readonly parameters: JsonParameters;
}

export interface JsonInferRequest {
  readonly id: JsonShallow | undefined;
  readonly parameters: JsonParameters;
  /** The elements, or a value that is no array. */
  readonly inputs: readonly JsonInferInput[] | JsonShallow | undefined;
  readonly outputs: readonly JsonInferOutput[] | JsonShallow | undefined;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export class InferRequestReader {
  readonly #reader: JsonReader;
  readonly #entries: JsonInferTensorReader;

  constructor(limits: JsonLimits) {
    this.#reader = new JsonReader(limits);
    this.#entries = new JsonInferTensorReader(this.#reader);
  }

  /** @throws JsonSyntaxError @throws JsonLimitError */
  *read(bytes: Uint8Array): Generator<undefined, JsonInferRequest> {
    const reader = this.#reader;
    reader.reset(bytes);
    const request: Mutable<JsonInferRequest> = {
      id: undefined,
      parameters: undefined,
      inputs: undefined,
      outputs: undefined,
    };
    if (reader.peekRoot() === OPEN_OBJECT) yield* this.#root(request);
    else yield* readShallow(reader);
    reader.finish();
    return request;
  }

  *#root(request: Mutable<JsonInferRequest>): Generator<undefined, void> {
    const reader = this.#reader;
    reader.open();
    for (let isFirst = true; reader.nextMember(isFirst); isFirst = false) {
      reader.countItem();
      const name = reader.memberName();
      if (name === "inputs" && request.inputs === undefined) request.inputs = yield* this.#inputs();
      else if (name === "outputs" && request.outputs === undefined) request.outputs = yield* this.#outputs();
      else if (name === "id" && request.id === undefined) request.id = yield* readShallow(reader);
      else if (name === "parameters" && request.parameters === undefined)
        request.parameters = yield* this.#entries.parameters();
      else yield* readShallow(reader);
    }
  }

  *#inputs(): Generator<undefined, readonly JsonInferInput[] | JsonShallow> {
    const reader = this.#reader;
    if (reader.peek() !== OPEN_ARRAY) return yield* readShallow(reader);
    const inputs: JsonInferInput[] = [];
    reader.open();
    for (let isFirst = true; reader.nextElement(isFirst); isFirst = false) {
      inputs.push(yield* this.#entries.read());
      reader.countItem();
    }
    return inputs;
  }

  *#outputs(): Generator<undefined, readonly JsonInferOutput[] | JsonShallow> {
    const reader = this.#reader;
    if (reader.peek() !== OPEN_ARRAY) return yield* readShallow(reader);
    const outputs: JsonInferOutput[] = [];
    reader.open();
    for (let isFirst = true; reader.nextElement(isFirst); isFirst = false) {
      outputs.push(yield* this.#output());
      reader.countItem();
    }
    return outputs;
  }

  *#output(): Generator<undefined, JsonInferOutput> {
    const reader = this.#reader;
    const output: Mutable<JsonInferOutput> = { name: undefined, parameters: undefined };
    if (reader.peek() !== OPEN_OBJECT) {
      yield* readShallow(reader);
      return output;
    }
    reader.open();
    for (let isFirst = true; reader.nextMember(isFirst); isFirst = false) {
      reader.countItem();
      const name = reader.memberName();
      if (name === "name" && output.name === undefined) output.name = yield* readShallow(reader);
      else if (name === "parameters" && output.parameters === undefined)
        output.parameters = yield* this.#entries.parameters();
      else yield* readShallow(reader);
    }
    return output;
  }
}
