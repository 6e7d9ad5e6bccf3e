/**
 * JSON documents (RFC 8259) as plain values. Integers are exact to 64 bits in both directions: a bigint where a number
 * is not exact.
 */
import { JsonReader, type JsonValue, JsonWriter, readDocument } from "@nereid/wire";
import { ClientError } from "./client-error.ts";

export type JsonData =
  | string
  | number
  | bigint
  | boolean
  | null
  | readonly JsonData[]
  | { readonly [name: string]: JsonData | undefined };

/** Members that are undefined are left out when written. */
export type JsonRecord = Readonly<Record<string, JsonData | undefined>>;

/** Nesting of a response. */
const MAX_DEPTH = 100;
/** Members and elements of a response: each becomes a JavaScript value. */
const MAX_ITEMS = 10_000_000;

/** @throws ClientError */
export function parseJson(bytes: Uint8Array, what: string): JsonData {
  try {
    return plain(readDocument(new JsonReader({ maxDepth: MAX_DEPTH, maxItems: MAX_ITEMS }), bytes));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ClientError("protocol", `${what}: expected JSON, got ${bytes.length} other bytes: ${reason}`, {
      cause: error,
    });
  }
}

/** @throws ClientError */
export function parseJsonRecord(bytes: Uint8Array, what: string): JsonRecord {
  const value = parseJson(bytes, what);
  if (!isRecord(value)) throw new ClientError("protocol", `${what}: expected a JSON object`);
  return value;
}

export function isRecord(value: JsonData | undefined): value is JsonRecord {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `Object.fromEntries` defines members, so that a key like `__proto__` reaches no prototype. */
function plain(value: JsonValue): JsonData {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof Map) return Object.fromEntries([...value].map(([name, member]) => [name, plain(member)]));
  return (value as { readonly double: number }).double;
}

/** The bytes of a document. */
export function encodeJson(value: JsonData): Uint8Array<ArrayBuffer> {
  const writer = new JsonWriter();
  writer.begin();
  write(writer, value);
  return new Uint8Array(writer.finish());
}

function write(writer: JsonWriter, value: JsonData): void {
  if (typeof value === "string") writer.string(value);
  else if (typeof value === "number") writeNumber(writer, value);
  else if (typeof value === "bigint") writer.bigint(value);
  else if (typeof value === "boolean" || value === null) writer.raw(String(value));
  else if (isRecord(value)) writeRecord(writer, value);
  else writeArray(writer, value as readonly JsonData[]);
}

function writeNumber(writer: JsonWriter, value: number): void {
  if (Number.isSafeInteger(value)) writer.integer(value);
  else writer.double(value);
}

function writeArray(writer: JsonWriter, elements: readonly JsonData[]): void {
  writer.raw("[");
  elements.forEach((element, i) => {
    if (i > 0) writer.raw(",");
    write(writer, element);
  });
  writer.raw("]");
}

function writeRecord(writer: JsonWriter, record: JsonRecord): void {
  writer.raw("{");
  let isFirst = true;
  for (const [name, member] of Object.entries(record)) {
    if (member === undefined) continue;
    if (!isFirst) writer.raw(",");
    isFirst = false;
    writer.string(name);
    writer.raw(":");
    write(writer, member);
  }
  writer.raw("}");
}
