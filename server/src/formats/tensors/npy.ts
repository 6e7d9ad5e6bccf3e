/**
 * Reads a numeric .npy file: untrusted bytes in, shape and values out. Source: NumPy NEP 1, "A Simple File Format for
 * NumPy Arrays".
 */
import { open } from "node:fs/promises";
import { widenBf16 } from "../../core/bf16.ts";
import { widenFp16 } from "../../core/fp16.ts";
import { readFully } from "./read-fully.ts";

export interface NpyArray {
  readonly shape: readonly number[];
  readonly values: Float32Array | Int32Array;
}

type Values = NpyArray["values"];

const MAGIC = "\u0093NUMPY";
/** A header is one line; longer ones describe structured types, which are not supported. */
const MAX_HEADER_BYTES = 4096;
const MAX_RANK = 8;
/** Adapters are far smaller. */
const MAX_BYTES: number = 2 ** 31;

/** By NumPy type string; "V2" is how NumPy writes BF16, which it does not know. */
const TYPES: ReadonlyMap<string, readonly [numBytes: number, read: (bytes: Uint8Array<ArrayBuffer>) => Values]> =
  new Map<string, readonly [number, (bytes: Uint8Array<ArrayBuffer>) => Values]>([
    ["<f4", [4, (bytes) => new Float32Array(bytes.buffer)]],
    ["<f2", [2, (bytes) => widenFp16(new Uint16Array(bytes.buffer))]],
    ["|V2", [2, (bytes) => widenBf16(new Uint16Array(bytes.buffer))]],
    ["<i4", [4, (bytes) => new Int32Array(bytes.buffer)]],
    ["<i8", [8, (bytes) => Int32Array.from(new BigInt64Array(bytes.buffer), Number)]],
  ]);

/** @throws Error naming the file and what is wrong with it */
export async function readNpy(path: string): Promise<NpyArray> {
  const handle = await open(path, "r").catch((cause: unknown) => {
    throw new Error(`${path}: expected a .npy file`, { cause });
  });
  try {
    const { size } = await handle.stat();
    const start = new Uint8Array(Math.min(size, MAX_HEADER_BYTES));
    await readFully(handle, start, 0, path);
    const { type, shape, dataStart } = parseHeader(start, path);
    const [numBytes, read] = TYPES.get(type) ?? [0, undefined];
    if (read === undefined)
      throw new Error(`${path}: expected numbers of type ${[...TYPES.keys()].join(", ")}, got ${type}`);
    const expected = shape.reduce((product, length) => product * length, numBytes);
    if (expected > MAX_BYTES || expected !== size - dataStart)
      throw new Error(`${path}: expected ${expected} bytes for ${type}[${shape.join(", ")}], got ${size - dataStart}`);
    const bytes = new Uint8Array(expected);
    await readFully(handle, bytes, dataStart, path);
    return { shape, values: read(bytes) };
  } finally {
    await handle.close();
  }
}

interface Header {
  readonly type: string;
  readonly shape: readonly number[];
  readonly dataStart: number;
}

function parseHeader(bytes: Uint8Array, path: string): Header {
  const latin = new TextDecoder("latin1").decode(bytes);
  const version = bytes[6] ?? 0;
  if (!latin.startsWith(MAGIC) || version < 1 || version > 3) throw new Error(`${path}: expected a .npy file`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const textStart = version === 1 ? 10 : 12;
  if (bytes.byteLength < textStart) throw new Error(`${path}: expected a .npy file, got ${bytes.byteLength} bytes`);
  const length = version === 1 ? view.getUint16(8, true) : view.getUint32(8, true);
  const dataStart = textStart + length;
  if (dataStart > bytes.byteLength) throw new Error(`${path}: header: expected at most ${MAX_HEADER_BYTES} bytes`);
  const text = latin.slice(textStart, dataStart);
  const [, type] = /'descr': '([^']{1,16})'/.exec(text) ?? [];
  const [, sizes] = /'shape': \(([\d, ]*)\)/.exec(text) ?? [];
  if (type === undefined || sizes === undefined) throw new Error(`${path}: header: expected descr and shape`);
  const shape = sizes.split(",").flatMap((part) => (part.trim() === "" ? [] : [Number(part)]));
  if (shape.length > MAX_RANK || !shape.every(Number.isSafeInteger)) throw new Error(`${path}: shape: got (${sizes})`);
  if (!text.includes("'fortran_order': False") && shape.length > 1)
    throw new Error(`${path}: fortran_order: expected False`);
  return { type, shape, dataStart };
}
