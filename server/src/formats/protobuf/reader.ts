/**
 * Splits an in-memory protobuf message into fields: untrusted bytes in, views out. Source: protobuf.dev, "Encoding". It
 * knows no schema.
 */

export interface ProtoField {
  readonly number: number;
  /** Value of a varint; 0 for other wire types. Not exact beyond safe integers. */
  readonly value: number;
  /** Content of a length-delimited or fixed-size field; empty for a varint. */
  readonly bytes: Uint8Array;
  /** The whole field including its tag, to be copied unchanged. */
  readonly raw: Uint8Array;
}

export class ProtoFormatError extends Error {
  constructor(at: number, what: string) {
    super(`${what} at byte ${at} of a message`);
    this.name = "ProtoFormatError";
  }
}

const EMPTY = new Uint8Array(0);
const FIXED_BYTES: ReadonlyMap<number, number> = new Map([
  [1, 8],
  [5, 4],
]);
const WIRE_VARINT = 0;
const WIRE_BYTES = 2;

/** @throws ProtoFormatError when a field exceeds the message or has an unknown wire type */
export function readFields(message: Uint8Array): ProtoField[] {
  const fields: ProtoField[] = [];
  for (let at = 0; at < message.byteLength; ) {
    const start = at;
    const tag = readVarint(message, at);
    const number = Math.floor(tag.value / 8);
    const wire = tag.value % 8;
    at = tag.end;
    let value = 0;
    let bytes: Uint8Array = EMPTY;
    if (wire === WIRE_VARINT) ({ value, end: at } = readVarint(message, at));
    else {
      const sized = wire === WIRE_BYTES ? readVarint(message, at) : { value: FIXED_BYTES.get(wire) ?? -1, end: at };
      if (sized.value < 0) throw new ProtoFormatError(start, `field ${number} of unknown kind ${wire}`);
      at = sized.end + sized.value;
      if (at > message.byteLength)
        throw new ProtoFormatError(start, `field ${number} of ${sized.value} bytes, too long`);
      bytes = message.subarray(sized.end, at);
    }
    fields.push({ number, value, bytes, raw: message.subarray(start, at) });
  }
  return fields;
}

export function textOf({ bytes }: ProtoField): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
}

/** Values of a repeated numeric field, packed or not. */
export function varintsOf(fields: readonly ProtoField[], number: number): number[] {
  return fields.flatMap((field) => {
    if (field.number !== number) return [];
    return field.bytes.byteLength > 0 ? unpack(field.bytes) : [field.value];
  });
}

function unpack(bytes: Uint8Array): number[] {
  const values: number[] = [];
  for (let at = 0; at < bytes.byteLength; ) {
    const { value, end } = readVarint(bytes, at);
    values.push(value);
    at = end;
  }
  return values;
}

function readVarint(bytes: Uint8Array, start: number): { value: number; end: number } {
  let value = 0;
  let scale = 1;
  for (let at = start; at < Math.min(bytes.byteLength, start + 10); at++) {
    const byte = bytes[at] ?? 0;
    value += (byte % 128) * scale;
    if (byte < 128) return { value, end: at + 1 };
    scale *= 128;
  }
  throw new ProtoFormatError(start, "a number that does not end");
}
