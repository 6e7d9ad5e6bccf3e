/**
 * Breaks protobuf messages field by field (protobuf.dev, "Encoding"): other numbers and wire types, fields twice, missing or
 * inside each other. Lengths stay right, so that the fault reaches behind the outermost message. Knows no schema.
 */
import type { Random } from "../../support/random.ts";
import { mutateBytes } from "./mutate-bytes.ts";
import { oddNumber } from "./numbers.ts";

interface Field {
  readonly number: number;
  readonly wire: number;
  /** A varint; or the content of the other wire types. */
  readonly value: bigint;
  readonly content: Buffer;
}

/** By wire type: bytes behind the tag, or behind the varint. */
const FIXED_BYTES: ReadonlyMap<number, number> = new Map([
  [0, 0],
  [1, 8],
  [5, 4],
]);
const MAX_DEPTH = 6;
const DEEP = 150;
/** One in so many is broken as bytes. */
const BYTES_ONE_IN = 6;

export function mutateProto(seed: Buffer, random: Random): Buffer {
  if (random.below(BYTES_ONE_IN) === 0) return mutateBytes(seed, random);
  let bytes = seed;
  for (let left = 1 + random.below(3); left > 0; left -= 1) bytes = mutateMessage(bytes, random, MAX_DEPTH);
  return bytes;
}

function mutateMessage(message: Buffer, random: Random, depth: number): Buffer {
  const fields = tryFields(message);
  if (fields === undefined || fields.length === 0) return mutateBytes(message, random);
  const at = random.below(fields.length);
  const field = fields[at] as Field;
  if (depth > 0 && field.wire === 2 && random.below(4) !== 0) {
    const content = mutateMessage(field.content, random, depth - 1);
    return fieldsBytes(fields.with(at, { ...field, content }));
  }
  return fieldsBytes(changeList(fields, at, field, random));
}

function changeList(fields: Field[], at: number, field: Field, random: Random): readonly Field[] {
  switch (random.below(7)) {
    case 0:
      return fields.toSpliced(at, 1);
    case 1:
      return fields.toSpliced(at, 0, ...Array.from({ length: 1 + random.below(20) }, () => field));
    case 2:
      return fields.with(at, { ...field, number: 1 + random.below(random.pick([8, 30, 2 ** 29])) });
    case 3:
      return fields.with(at, { ...field, wire: random.below(8) });
    case 4:
      return fields.with(at, { ...field, wire: 0, value: oddNumber(random, field.value) });
    case 5:
      return fields.with(at, nested(field, random.below(DEEP)));
    default:
      return fields.with(at, { ...field, content: mutateBytes(field.content, random) });
  }
}

/** The field inside itself. */
function nested(field: Field, depth: number): Field {
  let inner = field;
  for (let left = depth; left > 0; left -= 1)
    inner = { number: field.number, wire: 2, value: 0n, content: fieldsBytes([inner]) };
  return inner;
}

function tryFields(message: Buffer): Field[] | undefined {
  const fields: Field[] = [];
  for (let at = 0; at < message.length; ) {
    const found = tryField(message, at);
    if (found === undefined) return undefined;
    fields.push(found.field);
    at = found.end;
  }
  return fields;
}

function tryField(message: Buffer, at: number): { readonly field: Field; readonly end: number } | undefined {
  const tag = tryVarint(message, at);
  if (tag === undefined) return undefined;
  const [number, wire] = [Number(tag.value >> 3n), Number(tag.value & 7n)];
  const head = wire === 0 || wire === 2 ? tryVarint(message, tag.end) : { value: 0n, end: tag.end };
  const length = wire === 2 ? Number(head?.value) : FIXED_BYTES.get(wire);
  if (head === undefined || length === undefined || head.end + length > message.length) return undefined;
  const content = message.subarray(head.end, head.end + length);
  return { field: { number, wire, value: head.value, content }, end: head.end + length };
}

function tryVarint(bytes: Buffer, start: number): { readonly value: bigint; readonly end: number } | undefined {
  let value = 0n;
  for (let at = start; at < Math.min(bytes.length, start + 10); at += 1) {
    const byte = bytes[at] ?? 0;
    value |= BigInt(byte & 127) << BigInt(7 * (at - start));
    if (byte < 128) return { value, end: at + 1 };
  }
  return undefined;
}

function fieldsBytes(fields: readonly Field[]): Buffer {
  return Buffer.concat(
    fields.flatMap(({ number, wire, value, content }) => {
      const tag = varint((BigInt(number) << 3n) | BigInt(wire));
      if (wire === 0) return [tag, varint(value)];
      return wire === 2 ? [tag, varint(BigInt(content.length)), content] : [tag, content];
    }),
  );
}

function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  return Buffer.from([...bytes, Number(rest)]);
}
