/**
 * Reads a tensor of a KServe V2 request or response from JSON (Open Inference Protocol, "Tensor Data"). It checks
 * syntax only. Yields now and then in long arrays.
 */
import { type Datatype, isDatatype } from "../datatype.ts";
import { type JsonReader, OPEN_ARRAY, OPEN_OBJECT } from "./reader.ts";
import { hasJsonForm, type JsonTensor, JsonTensorReader } from "./tensor-reader.ts";
import { type JsonShallow, readScalar, readShallow } from "./value.ts";

/** Members of the object, without nested values; undefined if absent; a value that is no object as it is. */
export type JsonParameters = ReadonlyMap<string, JsonShallow> | JsonShallow | undefined;

export interface JsonInferTensor {
  readonly name: JsonShallow | undefined;
  readonly datatype: JsonShallow | undefined;
  /** The dimensions, or their type error. */
  readonly shape: readonly number[] | JsonShapeError | undefined;
  /** The dimensions as signed 64-bit integers, if a number cannot hold one of them exactly. */
  readonly exactShape: readonly bigint[] | undefined;
  readonly parameters: JsonParameters;
  /** True if there is a member `data` of any type. */
  readonly hasData: boolean;
  readonly isDataArray: boolean;
  /** Present if `data` is an array and the shape and a datatype with a JSON form are known. */
  readonly tensor: JsonTensor | undefined;
}

export type JsonShapeError = "non-array as array" | "non-unsigned-integer as unsigned-integer";

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export class JsonInferTensorReader {
  readonly #reader: JsonReader;
  /** Absent until a tensor comes as JSON: its buffers cost more than a body with binary tensors. */
  #tensors: JsonTensorReader | undefined;

  constructor(reader: JsonReader) {
    this.#reader = reader;
  }

  *read(): Generator<undefined, JsonInferTensor> {
    const reader = this.#reader;
    const entry: Mutable<JsonInferTensor> = {
      name: undefined,
      datatype: undefined,
      shape: undefined,
      exactShape: undefined,
      parameters: undefined,
      hasData: false,
      isDataArray: false,
      tensor: undefined,
    };
    if (reader.peek() !== OPEN_OBJECT) {
      yield* readShallow(reader);
      return entry;
    }
    let skippedAt = -1;
    reader.open();
    for (let isFirst = true; reader.nextMember(isFirst); isFirst = false) {
      reader.countItem();
      const name = reader.memberName();
      if (name === "data" && !entry.hasData) {
        entry.hasData = true;
        entry.isDataArray = reader.peek() === OPEN_ARRAY;
        const start = reader.pos;
        if (!(yield* this.#data(entry))) skippedAt = start;
      } else {
        yield* this.#member(entry, name);
      }
    }
    if (skippedAt >= 0) yield* this.#dataAfterwards(entry, skippedAt);
    return entry;
  }

  *#member(entry: Mutable<JsonInferTensor>, name: string): Generator<undefined, void> {
    const reader = this.#reader;
    if (name === "name" && entry.name === undefined) entry.name = yield* readShallow(reader);
    else if (name === "datatype" && entry.datatype === undefined) entry.datatype = yield* readShallow(reader);
    else if (name === "shape" && entry.shape === undefined) entry.shape = yield* this.#shape(entry);
    else if (name === "parameters" && entry.parameters === undefined) entry.parameters = yield* this.parameters();
    else yield* readShallow(reader);
  }

  /** Reads the tensor if shape and datatype are known. @returns false if the value was skipped */
  *#data(entry: Mutable<JsonInferTensor>): Generator<undefined, boolean> {
    const datatype = jsonDatatype(entry.datatype);
    if (this.#reader.peek() !== OPEN_ARRAY || datatype === undefined || !Array.isArray(entry.shape)) {
      yield* readShallow(this.#reader);
      return false;
    }
    this.#tensors ??= new JsonTensorReader(this.#reader);
    entry.tensor = yield* this.#tensors.read(datatype, elementCount(entry.shape));
    return true;
  }

  /** Goes back to data in front of its shape or datatype. The text was checked when it was skipped. */
  *#dataAfterwards(entry: Mutable<JsonInferTensor>, start: number): Generator<undefined, void> {
    const end = this.#reader.pos;
    this.#reader.pos = start;
    if (jsonDatatype(entry.datatype) !== undefined && this.#reader.peek() === OPEN_ARRAY) yield* this.#data(entry);
    this.#reader.pos = end;
  }

  *#shape(entry: Mutable<JsonInferTensor>): Generator<undefined, readonly number[] | JsonShapeError> {
    const reader = this.#reader;
    if (reader.peek() !== OPEN_ARRAY) {
      yield* readShallow(reader);
      return "non-array as array";
    }
    const shape: number[] = [];
    let exact: bigint[] | undefined;
    let isBad = false;
    reader.open();
    for (let isFirst = true; reader.nextElement(isFirst); isFirst = false) {
      const byte = reader.peek();
      const dim = byte >= 0x30 && byte <= 0x39 ? readDim(reader) : -1;
      if (dim < 0) isBad = true;
      if (dim === -1) yield* readShallow(reader);
      else if (dim > Number.MAX_SAFE_INTEGER) exact ??= shape.map(BigInt);
      exact?.push(dim < 0 ? -1n : BigInt.asIntN(64, reader.number.toBigInt()));
      shape.push(dim);
      reader.countItem();
    }
    entry.exactShape = exact;
    return isBad ? "non-unsigned-integer as unsigned-integer" : shape;
  }

  *parameters(): Generator<undefined, JsonParameters> {
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
