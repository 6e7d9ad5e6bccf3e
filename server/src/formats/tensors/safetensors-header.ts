/**
 * Parses the header of a safetensors file: untrusted bytes in, checked tensor ranges out. Source: safetensors README,
 * "Format". Duplicate names, overlaps, holes and trailing bytes are errors. It opens no file.
 */

import { isObject, shownValue } from "../../core/json-object.ts";
export const SAFETENSORS_DTYPE_BYTES = {
  BOOL: 1,
  U8: 1,
  I8: 1,
  F8_E4M3: 1,
  F8_E5M2: 1,
  F8_E8M0: 1,
  I16: 2,
  U16: 2,
  F16: 2,
  BF16: 2,
  I32: 4,
  U32: 4,
  F32: 4,
  I64: 8,
  U64: 8,
  F64: 8,
} as const;
export type SafetensorsDtype = keyof typeof SAFETENSORS_DTYPE_BYTES;

export interface SafetensorsRange {
  readonly name: string;
  readonly dtype: SafetensorsDtype;
  /** Outermost dimension first; empty for a scalar. */
  readonly shape: readonly number[];
  /** Byte offset from the start of the file. */
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** Cap of the reference implementation: larger headers are an attack on the reader's memory. */
export const MAX_SAFETENSORS_HEADER_BYTES = 100_000_000;
/** Names are module paths; the longest in use stay below 200 bytes. */
const MAX_NAME_LENGTH = 1024;
/** No tensor library exceeds this rank. */
const MAX_RANK = 8;
/** The length field before the header. */
export const SAFETENSORS_PREFIX_BYTES = 8;

/** Checks the length field. @throws Error naming the file */
export function parseHeaderLength(prefix: Uint8Array, fileBytes: number, file: string): number {
  if (prefix.byteLength < SAFETENSORS_PREFIX_BYTES)
    throw new Error(`${file}: expected a safetensors file, got ${fileBytes} bytes`);
  const length = new DataView(prefix.buffer, prefix.byteOffset, prefix.byteLength).getBigUint64(0, true);
  const largest = Math.min(MAX_SAFETENSORS_HEADER_BYTES, fileBytes - SAFETENSORS_PREFIX_BYTES);
  if (length < 2n || length > BigInt(largest)) {
    throw new Error(`${file}: header length: expected 2 to ${largest} bytes, got ${length}`);
  }
  return Number(length);
}

/** The tensors of a file by name. @throws Error naming file and tensor */
export function parseSafetensorsHeader(
  header: Uint8Array,
  fileBytes: number,
  file: string,
): ReadonlyMap<string, SafetensorsRange> {
  const text = decodeHeader(header, file);
  const parsed = parseJson(text, file);
  if (countKeys(parsed) !== countColons(text))
    throw new Error(`${file}: header: a name occurs twice, or objects nest deeper than the format`);
  const dataStart = SAFETENSORS_PREFIX_BYTES + header.byteLength;
  const ranges: SafetensorsRange[] = [];
  for (const [name, entry] of Object.entries(parsed)) {
    if (name !== "__metadata__") ranges.push(parseEntry(name, entry, dataStart, `${file}: tensor ${shownValue(name)}`));
  }
  checkCoverage(ranges, dataStart, fileBytes, file);
  return new Map(ranges.map((range) => [range.name, range]));
}

function decodeHeader(header: Uint8Array, file: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(header);
  } catch (cause) {
    throw new Error(`${file}: header: expected UTF-8`, { cause });
  }
}

function parseJson(text: string, file: string): Record<string, unknown> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (cause) {
    throw new Error(`${file}: header: expected JSON`, { cause });
  }
  if (!isObject(parsed)) throw new Error(`${file}: header: expected an object`);
  return parsed;
}

/** JSON.parse silently keeps the last of two equal names, so names are counted before and after. */
function countKeys(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  const children = Object.values(value);
  let count = Array.isArray(value) ? 0 : children.length;
  for (const child of children) {
    if (isObject(child)) count += Object.keys(child).length;
  }
  return count;
}

function countColons(text: string): number {
  let count = 0;
  let isInString = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x22) isInString = !isInString;
    else if (code === 0x5c && isInString) i++;
    else if (code === 0x3a && !isInString) count++;
  }
  return count;
}

function parseEntry(name: string, entry: unknown, dataStart: number, at: string): SafetensorsRange {
  if (name.length > MAX_NAME_LENGTH) throw new Error(`${at}: expected a name of at most ${MAX_NAME_LENGTH} characters`);
  if (!isObject(entry)) throw new Error(`${at}: expected an object`);
  const dtype = parseDtype(entry.dtype, at);
  const shape = parseShape(entry.shape, at);
  const [begin, end] = parseOffsets(entry.data_offsets, at);
  const expected = shape.reduce((product, size) => product * size, SAFETENSORS_DTYPE_BYTES[dtype]);
  if (end - begin !== expected) {
    throw new Error(`${at}: expected ${expected} bytes for ${dtype}[${shape.join(", ")}], got ${end - begin}`);
  }
  return { name, dtype, shape, byteOffset: dataStart + begin, byteLength: expected };
}

function parseDtype(value: unknown, at: string): SafetensorsDtype {
  if (typeof value === "string" && Object.hasOwn(SAFETENSORS_DTYPE_BYTES, value)) return value as SafetensorsDtype;
  throw new Error(
    `${at}: dtype: expected one of ${Object.keys(SAFETENSORS_DTYPE_BYTES).join(", ")}, got ${shownValue(value)}`,
  );
}

function parseShape(value: unknown, at: string): number[] {
  if (!Array.isArray(value) || value.length > MAX_RANK || !value.every(isSize)) {
    throw new Error(`${at}: shape: expected at most ${MAX_RANK} sizes, got ${shownValue(value)}`);
  }
  return value;
}

function parseOffsets(value: unknown, at: string): [number, number] {
  if (Array.isArray(value) && value.length === 2 && value.every(isSize)) {
    const [begin, end] = value as [number, number];
    if (begin <= end) return [begin, end];
  }
  throw new Error(`${at}: data_offsets: expected a begin and an end, got ${shownValue(value)}`);
}

/** In file order, each range must begin where the previous one ended, and the last must end with the file. */
function checkCoverage(ranges: readonly SafetensorsRange[], dataStart: number, fileBytes: number, file: string): void {
  const inOrder = ranges.toSorted((a, b) => a.byteOffset - b.byteOffset || a.byteLength - b.byteLength);
  let end = dataStart;
  for (const { name, byteOffset, byteLength } of inOrder) {
    if (byteOffset !== end) {
      const what = byteOffset < end ? "overlaps the one before it" : "leaves a hole before it";
      throw new Error(`${file}: tensor ${shownValue(name)} ${what}`);
    }
    end += byteLength;
  }
  if (end !== fileBytes)
    throw new Error(`${file}: expected ${end} bytes, got ${fileBytes}: cut off or not this header's data`);
}

function isSize(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
