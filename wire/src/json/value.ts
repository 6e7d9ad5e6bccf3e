/** JSON values (RFC 8259) as KServe V2 needs them: integers exact to 64 bits, doubles marked, objects as maps. */
import { type JsonReader, OPEN_ARRAY, OPEN_OBJECT } from "./reader.ts";

/** A number with a fraction or an exponent, beyond 64 bits, or NaN and infinity: `5.0` and `5` differ on the wire. */
export interface JsonDouble {
  readonly double: number;
}

export type JsonScalar = string | boolean | null | number | bigint | JsonDouble;

/** Placeholder of an array or object whose content is skipped. */
export const JSON_ARRAY: unique symbol = Symbol("JSON array");
export const JSON_OBJECT: unique symbol = Symbol("JSON object");

/** A scalar, or the placeholder of a container. */
export type JsonShallow = JsonScalar | typeof JSON_ARRAY | typeof JSON_OBJECT;

export type JsonObject = ReadonlyMap<string, JsonValue>;
export type JsonValue = JsonScalar | readonly JsonValue[] | JsonObject;

/** Tokens skipped between two pauses of a long skip. */
const TOKENS_PER_SLICE = 65_536;

/** Reads the scalar whose first byte `peek()` returned. */
export function readScalar(reader: JsonReader, byte: number): JsonScalar {
  if (byte === 0x22) return reader.string();
  if (byte === 0x74) {
    reader.literal("true");
    return true;
  }
  if (byte === 0x66) {
    reader.literal("false");
    return false;
  }
  if (byte === 0x6e) {
    reader.literal("null");
    return null;
  }
  reader.readNumber();
  return numberValue(reader);
}

function numberValue(reader: JsonReader): number | bigint | JsonDouble {
  const { number } = reader;
  if (number.kind === "integer") {
    if (number.isSafe) return number.toInteger();
    if (number.isInt64() || number.isUint64()) return shorten(number.toBigInt());
  }
  return { double: number.toNormalPrecision() };
}

function shorten(value: bigint): number | bigint {
  const short = Number(value);
  return Number.isSafeInteger(short) ? short : value;
}

/** Reads a value; a container becomes its placeholder. Yields now and then in a long container. */
export function* readShallow(reader: JsonReader): Generator<undefined, JsonShallow> {
  const byte = reader.peek();
  if (byte !== OPEN_ARRAY && byte !== OPEN_OBJECT) return readScalar(reader, byte);
  yield* skipContainer(reader);
  return byte === OPEN_ARRAY ? JSON_ARRAY : JSON_OBJECT;
}

/** Moves past the array or object at `pos`, checking its syntax, without recursion. */
export function* skipContainer(reader: JsonReader): Generator<undefined, void> {
  const open: number[] = [];
  let isFirst = true;
  let budget = TOKENS_PER_SLICE;
  open.push(reader.peek());
  reader.open();
  while (open.length > 0) {
    if (--budget < 0) {
      budget = TOKENS_PER_SLICE;
      yield undefined;
    }
    if (!nextItem(reader, open[open.length - 1] === OPEN_OBJECT, isFirst)) {
      open.pop();
      isFirst = false;
      continue;
    }
    const byte = reader.peek();
    isFirst = byte === OPEN_ARRAY || byte === OPEN_OBJECT;
    if (isFirst) {
      open.push(byte);
      reader.open();
    } else {
      reader.skipScalar(byte);
    }
  }
}

function nextItem(reader: JsonReader, isObject: boolean, isFirst: boolean): boolean {
  if (!isObject) return reader.nextElement(isFirst);
  if (!reader.nextMember(isFirst)) return false;
  reader.skipScalar(0x22);
  reader.colon();
  return true;
}

/** Reads a whole document. @throws JsonSyntaxError @throws JsonLimitError */
export function readDocument(reader: JsonReader, bytes: Uint8Array): JsonValue {
  reader.reset(bytes);
  reader.peekRoot();
  const value = readValue(reader);
  reader.finish();
  return value;
}

function readValue(reader: JsonReader): JsonValue {
  const byte = reader.peek();
  if (byte === OPEN_OBJECT) return readObject(reader);
  if (byte === OPEN_ARRAY) return readArray(reader);
  return readScalar(reader, byte);
}

function readObject(reader: JsonReader): JsonObject {
  const members = new Map<string, JsonValue>();
  reader.open();
  for (let isFirst = true; reader.nextMember(isFirst); isFirst = false) {
    const name = reader.memberName();
    const value = readValue(reader);
    if (!members.has(name)) members.set(name, value);
    reader.countItem();
  }
  return members;
}

function readArray(reader: JsonReader): readonly JsonValue[] {
  const elements: JsonValue[] = [];
  reader.open();
  for (let isFirst = true; reader.nextElement(isFirst); isFirst = false) {
    elements.push(readValue(reader));
    reader.countItem();
  }
  return elements;
}
