/** Breaks bytes of any format: bits, borders of integers, cuts, copies of parts. Knows no format. */
import type { Random } from "../../support/random.ts";
import { oddNumber } from "./numbers.ts";

type Mutation = (bytes: Buffer, random: Random) => Buffer;

const MAX_COPIES = 20;
const MAX_PART = 40;
const WIDTHS: readonly number[] = [1, 2, 4, 8];

const MUTATIONS: readonly Mutation[] = [flipBit, setByte, writeNumber, writeNumber, cut, remove, insert, repeat, swap];

/** One to four mutations. */
export function mutateBytes(seed: Buffer, random: Random): Buffer {
  let bytes = Buffer.from(seed);
  for (let left = 1 + random.below(4); left > 0; left -= 1) bytes = Buffer.from(random.pick(MUTATIONS)(bytes, random));
  return bytes;
}

function flipBit(bytes: Buffer, random: Random): Buffer {
  const at = random.below(bytes.length);
  if (bytes.length > 0) bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8));
  return bytes;
}

function setByte(bytes: Buffer, random: Random): Buffer {
  if (bytes.length > 0) bytes[random.below(bytes.length)] = random.below(256);
  return bytes;
}

/** An integer of 1, 2, 4 or 8 bytes, in either order. */
function writeNumber(bytes: Buffer, random: Random): Buffer {
  const width = random.pick(WIDTHS);
  if (bytes.length < width) return bytes;
  const number = Buffer.alloc(8);
  const isLittle = random.below(2) === 0;
  number.writeBigUInt64LE(oddNumber(random));
  const part = isLittle ? number.subarray(0, width) : Buffer.from(number.subarray(0, width)).reverse();
  part.copy(bytes, random.below(bytes.length - width + 1));
  return bytes;
}

function cut(bytes: Buffer, random: Random): Buffer {
  return bytes.subarray(0, random.below(bytes.length + 1));
}

function remove(bytes: Buffer, random: Random): Buffer {
  const from = random.below(bytes.length + 1);
  return Buffer.concat([bytes.subarray(0, from), bytes.subarray(from + random.below(MAX_PART))]);
}

function insert(bytes: Buffer, random: Random): Buffer {
  const at = random.below(bytes.length + 1);
  return Buffer.concat([bytes.subarray(0, at), random.bytes(random.below(MAX_PART)), bytes.subarray(at)]);
}

function repeat(bytes: Buffer, random: Random): Buffer {
  const from = random.below(bytes.length + 1);
  const part = bytes.subarray(from, from + random.below(MAX_PART));
  const copies = Array.from({ length: random.below(MAX_COPIES) }, () => part);
  return Buffer.concat([bytes.subarray(0, from), ...copies, bytes.subarray(from)]);
}

/** Two parts change places. */
function swap(bytes: Buffer, random: Random): Buffer {
  const [a = 0, b = 0, c = 0, d = 0] = Array.from({ length: 4 }, () => random.below(bytes.length + 1)).sort(
    (x, y) => x - y,
  );
  return Buffer.concat([
    bytes.subarray(0, a),
    bytes.subarray(c, d),
    bytes.subarray(b, c),
    bytes.subarray(a, b),
    bytes.subarray(d),
  ]);
}
