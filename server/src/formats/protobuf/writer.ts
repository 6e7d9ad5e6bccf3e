/**
 * Builds protobuf messages from fields; large byte fields are loaded only while they are written. Source: protobuf.dev,
 * "Encoding". It knows no schema.
 */
import type { FileHandle } from "node:fs/promises";

/** Bytes of a known length, fetched when they are written. */
export interface LazyBytes {
  readonly byteLength: number;
  load(): Promise<Uint8Array>;
}

/** A message is a list of parts, so nesting it in another message copies nothing. */
export type Part = Uint8Array | LazyBytes;

const WIRE_VARINT = 0;
const WIRE_BYTES = 2;
const WIRE_FIXED32 = 5;

export function partsBytes(parts: readonly Part[]): number {
  return parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
}

/** Negative numbers take ten bytes (sign extension to 64 bits). */
export function varint(value: number | bigint): Uint8Array {
  let rest = BigInt.asUintN(64, BigInt(value));
  const bytes: number[] = [];
  while (rest > 0x7fn) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Uint8Array.from(bytes);
}

export function varintField(field: number, value: number | bigint): Uint8Array {
  return Buffer.concat([varint(field * 8 + WIRE_VARINT), varint(value)]);
}

export function floatField(field: number, value: number): Uint8Array {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return Buffer.concat([varint(field * 8 + WIRE_FIXED32), bytes]);
}

export function textField(field: number, text: string): Uint8Array {
  const bytes = Buffer.from(text, "utf8");
  return Buffer.concat([varint(field * 8 + WIRE_BYTES), varint(bytes.byteLength), bytes]);
}

/** A length-delimited field: bytes or a nested message. */
export function messageField(field: number, parts: readonly Part[]): Part[] {
  const prefix = Buffer.concat([varint(field * 8 + WIRE_BYTES), varint(partsBytes(parts))]);
  return [prefix, ...parts];
}

export interface WriteOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onWritten?: ((numBytes: number) => void) | undefined;
}

/** Appends to the file. @throws Error when a part does not have its announced length */
export async function writeParts(
  file: FileHandle,
  parts: readonly Part[],
  { signal, onWritten }: WriteOptions = {},
): Promise<void> {
  for (const part of joinSmall(parts)) {
    signal?.throwIfAborted();
    const bytes = part instanceof Uint8Array ? part : await part.load();
    if (bytes.byteLength !== part.byteLength)
      throw new Error(`expected ${part.byteLength} bytes to write, got ${bytes.byteLength}`);
    for (let done = 0; done < bytes.byteLength; ) {
      const { bytesWritten } = await file.write(bytes, done);
      done += bytesWritten;
    }
    onWritten?.(bytes.byteLength);
  }
}

const JOINED_BYTES = 65_536;

/** Joins small neighbours: a graph has thousands of fields, and each write is a system call. */
function* joinSmall(parts: readonly Part[]): Generator<Part> {
  let small: Uint8Array[] = [];
  let numBytes = 0;
  for (const part of parts) {
    const isSmall = part instanceof Uint8Array && part.byteLength < JOINED_BYTES;
    if (numBytes > 0 && (!isSmall || numBytes >= JOINED_BYTES)) {
      yield Buffer.concat(small);
      [small, numBytes] = [[], 0];
    }
    if (isSmall) {
      small.push(part);
      numBytes += part.byteLength;
    } else yield part;
  }
  if (numBytes > 0) yield Buffer.concat(small);
}
