/**
 * Reads the JSON of a V2 inference request. Gives what stood there, with tensors as bytes, and judges nothing beyond
 * syntax: which member is missing or of a wrong type is for the caller to say, in the order of its protocol.
 *
 * A generator, so that a long text can be read in slices: it yields now and then in long arrays and never in short ones.
 */
import { type Datatype, isDatatype } from "./datatype.ts";
import { JSON_REASON } from "./json-error.ts";
import { type JsonLimits, JsonReader, OPEN_ARRAY, OPEN_OBJECT } from "./json-reader.ts";
import { hasJsonForm, type JsonTensor, JsonTensorReader } from "./json-tensor.ts";
import { type JsonShallow, readScalar, readShallow } from "./json-value.ts";

/** Members of one level; undefined = absent, otherwise a value that is no object. */
export type JsonParameters = ReadonlyMap<string, JsonShallow> | JsonShallow | undefined;

export interface JsonInferInput {
  readonly name: JsonShallow | undefined;
  readonly datatype: JsonShallow | undefined;
  /** The dimensions, or why they are none. */
  readonly shape: readonly number[] | JsonShapeError | undefined;
  readonly parameters: JsonParameters;
  /** True when there is a member `data`, whatever it holds. */
  readonly hasData: boolean;
  /** Read only when `data` is an array and name a datatype with a JSON form and the shape are known. */
  readonly tensor: JsonTensor | undefined;
}

export type JsonShapeError = "non-array as array" | "non-unsigned-integer as unsigned-integer";

export interface JsonInferOutput {
  readonly name: JsonShallow | undefined;
  readonly parameters: JsonParameters;
}

export interface JsonInferRequest {
  readonly id: JsonShallow | undefined;
  readonly parameters: JsonParameters;
  /** A value that is no array, or the elements. */
  readonly inputs: readonly JsonInferInput[] | JsonShallow | undefined;
  readonly outputs: readonly JsonInferOutput[] | JsonShallow | undefined;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export class InferRequestReader {
  readonly #reader: JsonReader;
  readonly #tensors: JsonTensorReader;

  constructor(limits: JsonLimits) {
    this.#reader = new JsonReader(limits);
    this.#tensors = new JsonTensorReader(this.#reader);
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
    const byte = reader.peek();
    if (byte === 0 && reader.pos >= bytes.length) reader.fail(JSON_REASON.empty, 0);
    if (byte === OPEN_OBJECT) yield* this.#root(request);
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
        request.parameters = yield* this.#parameters();
      else yield* readShallow(reader);
    }
  }

  *#parameters(): Generator<undefined, JsonParameters> {
    const reader = this.#reader;
    if (reader.peek() !== OPEN_OBJECT) return yield* readShallow(reader);
    const parameters = new Map<string, JsonShallow>();
    reader.open();
    for (let isFirst = true; reader.nextMember(isFirst); isFirst = false) {
      const name = reader.memberName();
      const byte = reader.peek();
      const isScalar = byte !== OPEN_ARRAY && byte !== OPEN_OBJECT;
      const value = isScalar ? readScalar(reader, byte) : yield* readShallow(reader);
      if (!parameters.has(name)) parameters.set(name, value);
      reader.countItem();
    }
    return parameters;
  }

  *#inputs(): Generator<undefined, readonly JsonInferInput[] | JsonShallow> {
    const reader = this.#reader;
    if (reader.peek() !== OPEN_ARRAY) return yield* readShallow(reader);
    const inputs: JsonInferInput[] = [];
    reader.open();
    for (let isFirst = true; reader.nextElement(isFirst); isFirst = false) {
      inputs.push(yield* this.#input());
      reader.countItem();
    }
    return inputs;
  }

  *#input(): Generator<undefined, JsonInferInput> {
    const reader = this.#reader;
    const input: Mutable<JsonInferInput> = {
      name: undefined,
      datatype: undefined,
      shape: undefined,
      parameters: undefined,
      hasData: false,
      tensor: undefined,
    };
    if (reader.peek() !== OPEN_OBJECT) {
      yield* readShallow(reader);
      return input;
    }
    let skippedAt = -1;
    reader.open();
    for (let isFirst = true; reader.nextMember(isFirst); isFirst = false) {
      reader.countItem();
      const name = reader.memberName();
      if (name === "data" && !input.hasData) {
        input.hasData = true;
        const start = reader.pos;
        if (!(yield* this.#data(input))) skippedAt = start;
      } else {
        yield* this.#inputMember(input, name);
      }
    }
    if (skippedAt >= 0) yield* this.#dataAfterwards(input, skippedAt);
    return input;
  }

  *#inputMember(input: Mutable<JsonInferInput>, name: string): Generator<undefined, void> {
    const reader = this.#reader;
    if (name === "name" && input.name === undefined) input.name = yield* readShallow(reader);
    else if (name === "datatype" && input.datatype === undefined) input.datatype = yield* readShallow(reader);
    else if (name === "shape" && input.shape === undefined) input.shape = yield* this.#shape();
    else if (name === "parameters" && input.parameters === undefined) input.parameters = yield* this.#parameters();
    else yield* readShallow(reader);
  }

  /** Reads the tensor if it is known how. @returns false when the value was only skipped */
  *#data(input: Mutable<JsonInferInput>): Generator<undefined, boolean> {
    const datatype = jsonDatatype(input.datatype);
    if (this.#reader.peek() !== OPEN_ARRAY || datatype === undefined || !Array.isArray(input.shape)) {
      yield* readShallow(this.#reader);
      return false;
    }
    input.tensor = yield* this.#tensors.read(datatype, elementCount(input.shape));
    return true;
  }

  /** The shape or the datatype stood behind the data: goes back for it. The text was checked when it was skipped. */
  *#dataAfterwards(input: Mutable<JsonInferInput>, start: number): Generator<undefined, void> {
    const end = this.#reader.pos;
    this.#reader.pos = start;
    if (jsonDatatype(input.datatype) !== undefined && this.#reader.peek() === OPEN_ARRAY) yield* this.#data(input);
    this.#reader.pos = end;
  }

  *#shape(): Generator<undefined, readonly number[] | JsonShapeError> {
    const reader = this.#reader;
    if (reader.peek() !== OPEN_ARRAY) {
      yield* readShallow(reader);
      return "non-array as array";
    }
    const shape: number[] = [];
    let isBad = false;
    reader.open();
    for (let isFirst = true; reader.nextElement(isFirst); isFirst = false) {
      const byte = reader.peek();
      const dim = byte >= 0x30 && byte <= 0x39 ? readDim(reader) : -1;
      if (dim < 0) isBad = true;
      if (dim === -1) yield* readShallow(reader);
      shape.push(dim);
      reader.countItem();
    }
    return isBad ? "non-unsigned-integer as unsigned-integer" : shape;
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
      else if (name === "parameters" && output.parameters === undefined) output.parameters = yield* this.#parameters();
      else yield* readShallow(reader);
    }
    return output;
  }
}

/** The dimension at `pos`, -2 when the number is no unsigned integer. Above 2^53 it is not exact, and far too large. */
function readDim(reader: JsonReader): number {
  reader.readNumber();
  const { number } = reader;
  if (!number.isUint64()) return -2;
  return number.isSafe ? number.toInteger() : Number(number.toBigInt());
}

function jsonDatatype(value: JsonShallow | undefined): Exclude<Datatype, "FP16" | "BF16"> | undefined {
  return typeof value === "string" && isDatatype(value) && hasJsonForm(value) ? value : undefined;
}

function elementCount(shape: readonly number[]): number {
  let count = 1;
  for (const dim of shape) count *= dim;
  return Number.isNaN(count) ? 0 : count;
}
