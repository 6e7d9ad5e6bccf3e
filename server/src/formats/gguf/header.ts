/**
 * Parses the header of a GGUF file, version 2 or 3: untrusted bytes in, metadata and checked tensor ranges out. Source:
 * ggml/docs/gguf.md, "File Structure". It opens no file and knows no model.
 */

import {
  isPackedDtype,
  PACKED_BLOCKS,
  type StoredTensor,
  type TensorDtype,
  tensorBytes,
} from "../tensors/tensor-source.ts";
import { GgufCursor } from "./cursor.ts";

/** 64-bit integers become bigints when a number cannot hold them. */
export type GgufScalar = number | bigint | boolean | string;
export type GgufValue = GgufScalar | readonly GgufScalar[];

export interface GgufTensor extends StoredTensor {
  /** Byte offset from the start of the file. */
  readonly byteOffset: number;
}

/** A tensor as the file describes it, of any type that ggml may have. */
export interface GgufTensorEntry {
  readonly name: string;
  /** Number of enum ggml_type. */
  readonly type: number;
  /** Outermost dimension first. */
  readonly shape: readonly number[];
}

/** A header without a look at the types of its tensors. */
export interface GgufOutline {
  readonly version: number;
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly tensors: readonly GgufTensorEntry[];
}

export interface GgufHeader {
  readonly version: number;
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly tensors: ReadonlyMap<string, GgufTensor>;
}

/** "GGUF" in little-endian order. */
const MAGIC = 0x46554747;
/** Models have some 40 keys; a header with more is an attack on the reader. */
const MAX_KEYS = 65_536;
/** The largest models have some 20,000 tensors. */
const MAX_TENSORS = 262_144;
/** The largest vocabularies have 262,144 tokens and about twice as many merges. */
const MAX_ARRAY_ITEMS = 16_777_216;
/** Names are module paths; ggml itself keeps 64 bytes of them (GGML_MAX_NAME). */
const MAX_NAME_LENGTH = 1024;
/** Maximum rank in ggml (GGML_MAX_DIMS). */
const MAX_RANK = 4;
/** Keeps the byte size a safe integer for every type. */
const MAX_ELEMENTS: bigint = 1n << 48n;
const DEFAULT_ALIGNMENT = 32;
/** A memory page and more; files use 32 (`general.alignment`). */
const MAX_ALIGNMENT: number = 1 << 20;
/**
 * Minimum sizes. A key-value pair: length, type and one byte of value. A tensor: length, rank, one size, type and
 * offset.
 */
const MIN_KEY_BYTES = 13;
const MIN_TENSOR_BYTES = 32;

const ARRAY_TYPE = 9;
const STRING_TYPE = 8;
/** Metadata value types by number: minimum bytes of a value, and how to read it. */
const VALUE_TYPES: ReadonlyMap<number, readonly [minBytes: number, read: (from: GgufCursor) => GgufScalar]> = new Map([
  [0, [1, (from: GgufCursor): GgufScalar => from.u8()]],
  [1, [1, (from: GgufCursor): GgufScalar => from.i8()]],
  [2, [2, (from: GgufCursor): GgufScalar => from.u16()]],
  [3, [2, (from: GgufCursor): GgufScalar => from.i16()]],
  [4, [4, (from: GgufCursor): GgufScalar => from.u32()]],
  [5, [4, (from: GgufCursor): GgufScalar => from.i32()]],
  [6, [4, (from: GgufCursor): GgufScalar => from.f32()]],
  [7, [1, readBoolean]],
  [STRING_TYPE, [8, (from: GgufCursor): GgufScalar => from.string("a value")]],
  [10, [8, (from: GgufCursor): GgufScalar => narrow(from.u64())]],
  [11, [8, (from: GgufCursor): GgufScalar => narrow(from.i64())]],
  [12, [8, (from: GgufCursor): GgufScalar => from.f64()]],
]);

/** Supported tensor types by number (enum ggml_type). */
const TENSOR_TYPES: ReadonlyMap<number, TensorDtype> = new Map<number, TensorDtype>([
  [0, "F32"],
  [1, "F16"],
  [2, "Q4_0"],
  [3, "Q4_1"],
  [6, "Q5_0"],
  [7, "Q5_1"],
  [8, "Q8_0"],
  [10, "Q2_K"],
  [11, "Q3_K"],
  [12, "Q4_K"],
  [13, "Q5_K"],
  [14, "Q6_K"],
  [16, "IQ2_XXS"],
  [17, "IQ2_XS"],
  [18, "IQ3_XXS"],
  [19, "IQ1_S"],
  [20, "IQ4_NL"],
  [21, "IQ3_S"],
  [22, "IQ2_S"],
  [23, "IQ4_XS"],
  [29, "IQ1_M"],
  [30, "BF16"],
  [34, "TQ1_0"],
  [35, "TQ2_0"],
  [39, "MXFP4"],
]);

/**
 * `bytes` is a prefix of a file of `fileBytes` bytes. @throws PrefixTooShort when more bytes are needed; Error naming
 * file, key or tensor
 */
export function parseGgufHeader(bytes: Uint8Array, fileBytes: number, file: string): GgufHeader {
  const cursor = new GgufCursor(bytes, fileBytes, file);
  const { version, metadata, entries, dataStart, alignment } = parseEntries(cursor, file);
  const described = entries.map((entry) => withDtype(cursor, entry));
  const tensors = placeTensors(cursor, described, { dataStart, alignment, fileBytes });
  return { version, metadata, tensors };
}

/** The same for files whose tensor types only other readers know. Offsets lie within the file. */
export function parseGgufOutline(bytes: Uint8Array, fileBytes: number, file: string): GgufOutline {
  const cursor = new GgufCursor(bytes, fileBytes, file);
  const { version, metadata, entries, dataStart, alignment } = parseEntries(cursor, file);
  const names = new Set<string>();
  for (const { name, offset } of entries) {
    const at = titleOf(name);
    if (names.has(name)) throw cursor.refusal(at, "it once", "it twice");
    names.add(name);
    expectAligned(cursor, at, offset, alignment);
    const start = BigInt(dataStart) + offset;
    if (start >= BigInt(fileBytes)) throw cursor.refusal(at, `its start within the file's ${fileBytes} bytes`, start);
  }
  return { version, metadata, tensors: entries.map(({ name, type, shape }) => ({ name, type, shape })) };
}

interface DescribedEntry extends GgufTensorEntry {
  /** Byte offset from the start of the tensor data. */
  readonly offset: bigint;
}

interface ParsedEntries {
  readonly version: number;
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly entries: readonly DescribedEntry[];
  readonly dataStart: number;
  readonly alignment: number;
}

function parseEntries(cursor: GgufCursor, file: string): ParsedEntries {
  const version = parseVersion(cursor, file);
  const numTensors = cursor.count("number of tensors", MIN_TENSOR_BYTES, MAX_TENSORS);
  const numKeys = cursor.count("number of keys", MIN_KEY_BYTES, MAX_KEYS);
  const metadata = new Map<string, GgufValue>();
  for (let i = 0; i < numKeys; i++) {
    const key = parseName(cursor, "a key");
    if (metadata.has(key)) throw cursor.refusal(`key "${key}"`, "it once", "it twice");
    metadata.set(key, parseValue(cursor, key));
  }
  const alignment = parseAlignment(cursor, metadata);
  const entries = Array.from({ length: numTensors }, () => parseTensor(cursor));
  const dataStart = Math.ceil(cursor.offset / alignment) * alignment;
  return { version, metadata, entries, dataStart, alignment };
}

function parseVersion(cursor: GgufCursor, file: string): number {
  if (cursor.u32() !== MAGIC) throw new Error(`${file}: expected a GGUF file: its first bytes are others`);
  const version = cursor.u32();
  if (version === 2 || version === 3) return version;
  if (version === 0x0200_0000 || version === 0x0300_0000)
    throw cursor.refusal("byte order", "little-endian", "big-endian");
  throw cursor.refusal("version", "2 or 3", version);
}

function parseName(cursor: GgufCursor, what: string): string {
  const name = cursor.string(what);
  if (name.length > MAX_NAME_LENGTH) throw cursor.refusal(what, `at most ${MAX_NAME_LENGTH} characters`, name.length);
  return name;
}

function parseValue(cursor: GgufCursor, key: string): GgufValue {
  const type = cursor.u32();
  if (type !== ARRAY_TYPE) return expectValueType(cursor, type, key)[1](cursor);
  const itemType = cursor.u32();
  const [minBytes, read] = expectValueType(cursor, itemType, key);
  const length = cursor.count(`items of "${key}"`, minBytes, MAX_ARRAY_ITEMS);
  const items: GgufScalar[] = [];
  for (let i = 0; i < length; i++) items.push(read(cursor));
  return items;
}

function expectValueType(
  cursor: GgufCursor,
  type: number,
  key: string,
): readonly [minBytes: number, read: (from: GgufCursor) => GgufScalar] {
  const found = VALUE_TYPES.get(type);
  if (found === undefined) throw cursor.refusal(`key "${key}"`, "a value of a known type", `type ${type}`);
  return found;
}

function readBoolean(cursor: GgufCursor): boolean {
  const value = cursor.u8();
  if (value > 1) throw cursor.refusal("a value", "0 or 1 as a boolean", value);
  return value === 1;
}

function narrow(value: bigint): GgufScalar {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function parseAlignment(cursor: GgufCursor, metadata: ReadonlyMap<string, GgufValue>): number {
  const alignment = metadata.get("general.alignment") ?? DEFAULT_ALIGNMENT;
  const isPower = typeof alignment === "number" && alignment >= 1 && Number.isInteger(Math.log2(alignment));
  if (isPower && alignment <= MAX_ALIGNMENT) return alignment;
  throw cursor.refusal("general.alignment", `a power of two up to ${MAX_ALIGNMENT}`, alignment);
}

interface DescribedTensor {
  readonly name: string;
  readonly dtype: TensorDtype;
  readonly shape: readonly number[];
  /** Byte offset from the start of the tensor data. */
  readonly offset: bigint;
}

function parseTensor(cursor: GgufCursor): DescribedEntry {
  const name = parseName(cursor, "a tensor's name");
  const at = titleOf(name);
  const rank = cursor.u32();
  if (rank < 1 || rank > MAX_RANK) throw cursor.refusal(at, `1 to ${MAX_RANK} dimensions`, rank);
  const sizes = Array.from({ length: rank }, () => cursor.u64());
  const type = cursor.u32();
  const numElements = sizes.reduce((product, size) => product * size, 1n);
  if (numElements < 1n || numElements > MAX_ELEMENTS) {
    throw cursor.refusal(at, "sizes above zero that fit a file", `[${sizes.join(", ")}]`);
  }
  return { name, type, shape: sizes.map(Number).reverse(), offset: cursor.u64() };
}

function withDtype(cursor: GgufCursor, { name, type, shape, offset }: DescribedEntry): DescribedTensor {
  const at = titleOf(name);
  const dtype = TENSOR_TYPES.get(type);
  if (dtype === undefined) throw cursor.refusal(at, `type ${[...TENSOR_TYPES.values()].join(", ")}`, `number ${type}`);
  const block = isPackedDtype(dtype) ? PACKED_BLOCKS[dtype].numElements : 1;
  const row = shape.at(-1) ?? 1;
  if (row % block !== 0) throw cursor.refusal(at, `rows of a multiple of ${block} for ${dtype}`, row);
  return { name, dtype, shape, offset };
}

function titleOf(name: string): string {
  return `tensor "${name.slice(0, 80)}"`;
}

function expectAligned(cursor: GgufCursor, at: string, offset: bigint, alignment: number): void {
  if (offset % BigInt(alignment) !== 0n) throw cursor.refusal(at, `an offset of a multiple of ${alignment}`, offset);
}

interface DataSection {
  readonly dataStart: number;
  readonly alignment: number;
  readonly fileBytes: number;
}

/** Resolves offsets to file positions and checks that they are aligned, inside the file and disjoint. */
function placeTensors(
  cursor: GgufCursor,
  described: readonly DescribedTensor[],
  { dataStart, alignment, fileBytes }: DataSection,
): ReadonlyMap<string, GgufTensor> {
  const tensors = new Map<string, GgufTensor>();
  for (const { name, dtype, shape, offset } of described) {
    const at = titleOf(name);
    if (tensors.has(name)) throw cursor.refusal(at, "it once", "it twice");
    expectAligned(cursor, at, offset, alignment);
    const byteLength = tensorBytes(dtype, shape);
    const end = BigInt(dataStart) + offset + BigInt(byteLength);
    if (end > BigInt(fileBytes)) throw cursor.refusal(at, `its end within the file's ${fileBytes} bytes`, end);
    tensors.set(name, { name, dtype, shape, byteLength, byteOffset: dataStart + Number(offset) });
  }
  let end = dataStart;
  for (const { name, byteOffset, byteLength } of [...tensors.values()].sort((a, b) => a.byteOffset - b.byteOffset)) {
    if (byteOffset < end) throw cursor.refusal(titleOf(name), "bytes of its own", "another's");
    end = byteOffset + byteLength;
  }
  return tensors;
}
