/**
 * Serializes the outputs of a response to one cache value, and back. A value from outside is validated, or ignored.
 * Pure.
 */
import { type Datatype, elementSize, isDatatype } from "@nereid/wire";
import type { Tensor } from "../core/tensor.ts";

/** Magic and version at the start of every value. */
const MARK = 0x31_43_4e_52; // "RNC1"
const PREFIX_BYTES = 8;
/** Maximum bytes of the description: names and shapes of the outputs. */
const MAX_HEADER_BYTES = 1 << 20;

/** Magic, length of the description, description as JSON, then the contents in order. */
export function encodeEntry(outputs: readonly Tensor[]): Buffer {
  const parts = outputs.map(({ name, datatype, shape, data }) => ({ name, datatype, shape, bytes: data.length }));
  const header = Buffer.from(JSON.stringify(parts));
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeUInt32LE(MARK, 0);
  prefix.writeUInt32LE(header.length, 4);
  return Buffer.concat([prefix, header, ...outputs.map(({ data }) => data)]);
}

/** Undefined for anything that `encodeEntry` does not write. */
export function decodeEntry(value: Buffer): readonly Tensor[] | undefined {
  if (value.length < PREFIX_BYTES || value.readUInt32LE(0) !== MARK) return undefined;
  const headerBytes = value.readUInt32LE(4);
  const start = PREFIX_BYTES + headerBytes;
  if (headerBytes > MAX_HEADER_BYTES || start > value.length) return undefined;
  const parts = parsed(value.toString("utf8", PREFIX_BYTES, start));
  if (parts === undefined) return undefined;
  const outputs: Tensor[] = [];
  let at = start;
  for (const part of parts) {
    const tensor = tensorOf(part, value, at);
    if (tensor === undefined) return undefined;
    outputs.push(tensor);
    at += tensor.data.length;
  }
  return at === value.length ? outputs : undefined;
}

function parsed(text: string): readonly unknown[] | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function tensorOf(part: unknown, value: Buffer, at: number): Tensor | undefined {
  if (typeof part !== "object" || part === null) return undefined;
  const { name, datatype, shape, bytes } = part as Partial<Record<"name" | "datatype" | "shape" | "bytes", unknown>>;
  const isLength = typeof bytes === "number" && Number.isSafeInteger(bytes) && bytes >= 0;
  if (typeof name !== "string" || typeof datatype !== "string" || !isDatatype(datatype) || !isLength) return undefined;
  if (!Array.isArray(shape) || !shape.every((dim) => Number.isSafeInteger(dim) && dim >= 0)) return undefined;
  if (at + bytes > value.length || !fits(datatype, shape as number[], value.subarray(at, at + bytes))) return undefined;
  // A copy: aligned, and free of the rest of the value.
  return { name, datatype, shape: shape as number[], data: new Uint8Array(value.subarray(at, at + bytes)) };
}

/** Later code trusts lengths, so element lengths must match the shape. */
function fits(datatype: Datatype, shape: readonly number[], data: Buffer): boolean {
  const count = shape.reduce((product, dim) => product * dim, 1);
  if (datatype !== "BYTES") return count * elementSize(datatype) === data.length;
  let found = 0;
  for (let at = 0; at < data.length; found += 1) {
    if (at + 4 > data.length) return false;
    at += 4 + data.readUInt32LE(at);
    if (at > data.length) return false;
  }
  return found === count;
}
