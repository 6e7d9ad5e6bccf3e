/**
 * Splits an in-memory protobuf message into fields, for formats that copy unknown fields unchanged: untrusted bytes in,
 * views out. Source: protobuf.dev, "Encoding"; the bytes are read by `ProtoReader`. It knows no schema.
 */
import { ProtoError, ProtoReader } from "@nereid/wire";

export interface ProtoField {
  readonly number: number;
  /** Value of a varint; 0 for other wire types. Not exact beyond safe integers. */
  readonly value: number;
  /** Content of a length-delimited or fixed-size field; empty for a varint. */
  readonly bytes: Uint8Array;
  /** The whole field including its tag, to be copied unchanged. */
  readonly raw: Uint8Array;
}

const EMPTY = new Uint8Array(0);
const WIRE_VARINT = 0;
const WIRE_FIXED64 = 1;
const WIRE_BYTES = 2;
const WIRE_FIXED32 = 5;

/** @throws ProtoError when a field exceeds the message, or is a group or of an unknown wire type */
export function readFields(message: Uint8Array): ProtoField[] {
  const reader = new ProtoReader(message);
  const fields: ProtoField[] = [];
  for (let start = 0; start < message.length; start = reader.pos) {
    const tag = reader.tag();
    const wireType = tag & 7;
    const value = wireType === WIRE_VARINT ? Number(reader.uint64()) : 0;
    const bytes = wireType === WIRE_VARINT ? EMPTY : readBytes(reader, wireType);
    fields.push({ number: tag >>> 3, value, bytes, raw: message.subarray(start, reader.pos) });
  }
  return fields;
}

function readBytes(reader: ProtoReader, wireType: number): Uint8Array {
  if (wireType === WIRE_BYTES) return reader.view();
  if (wireType === WIRE_FIXED32) return reader.fixed(4, false);
  if (wireType === WIRE_FIXED64) return reader.fixed(8, false);
  throw new ProtoError(`unsupported wire type ${wireType} at byte ${reader.pos}`);
}

export function textOf({ bytes }: ProtoField): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
}

/** Numbers of a repeated field, packed or not (protobuf.dev, "Packed Repeated Fields"). */
export function varintsOf(fields: readonly ProtoField[], number: number): number[] {
  return fields.flatMap((field) => {
    if (field.number !== number) return [];
    return field.bytes.byteLength > 0 ? unpack(field.bytes) : [field.value];
  });
}

function unpack(bytes: Uint8Array): number[] {
  const values: number[] = [];
  for (const reader = new ProtoReader(bytes); reader.pos < reader.end; ) values.push(Number(reader.uint64()));
  return values;
}
