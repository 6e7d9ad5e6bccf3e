/** Breaks the text of a JSON document in ways that readers of JSON get wrong. Knows no protocol. */
import type { Random } from "./random.ts";

/** Values that stand where another was expected. */
const VALUES: readonly string[] = [
  "null",
  "true",
  "-1",
  "0",
  "1e999",
  "-0",
  "1.5",
  "NaN",
  "-Infinity",
  "9007199254740993",
  "18446744073709551616",
  "-9223372036854775809",
  "4294967296",
  '""',
  '"__proto__"',
  '"\\u0000"',
  '"\\ud800"',
  '"\ud83d\ude00"',
  "[]",
  "{}",
  "[[]]",
  "[2147483648,2147483648,4]",
  "[-1]",
  "[9007199254740992]",
  "[1e3]",
  '{"__proto__":{"polluted":1}}',
  '{"constructor":{"prototype":{"polluted":1}}}',
];
/** Bytes that mean something to a reader. */
const MARKS: Buffer = Buffer.from('{}[]",:\\0-+.eE\0\x01\x7f\xff\xc3\xed\xa0 \n/', "latin1");
const TOKEN = /"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null|[[{][^[\]{}]{0,40}[\]}]/g;

type Mutation = (bytes: Buffer, random: Random) => Buffer;

const MUTATIONS: readonly Mutation[] = [
  replaceToken,
  replaceToken,
  replaceToken,
  (bytes, random) => bytes.subarray(0, random.below(bytes.length + 1)),
  flipByte,
  insertMark,
  repeatPart,
  (bytes, random) => Buffer.concat([Buffer.from(random.pick(["[", '{"a":']).repeat(1 + random.below(300))), bytes]),
  (bytes) => Buffer.concat([bytes, bytes]),
];

/** One to three mutations of a text, the same for the same random numbers. */
export function mutateJson(text: string, random: Random): Buffer {
  let bytes = Buffer.from(text);
  for (let left = 1 + random.below(3); left > 0; left -= 1) bytes = Buffer.from(random.pick(MUTATIONS)(bytes, random));
  return bytes;
}

function replaceToken(bytes: Buffer, random: Random): Buffer {
  const text = bytes.toString("utf8");
  const tokens = [...text.matchAll(TOKEN)];
  if (tokens.length === 0) return bytes;
  const token = random.pick(tokens);
  const end = token.index + token[0].length;
  return Buffer.from(text.slice(0, token.index) + random.pick(VALUES) + text.slice(end));
}

function flipByte(bytes: Buffer, random: Random): Buffer {
  const copy = Buffer.from(bytes);
  if (copy.length > 0) copy[random.below(copy.length)] = random.below(256);
  return copy;
}

function insertMark(bytes: Buffer, random: Random): Buffer {
  const at = random.below(bytes.length + 1);
  const mark = random.below(MARKS.length);
  return Buffer.concat([bytes.subarray(0, at), MARKS.subarray(mark, mark + 1), bytes.subarray(at)]);
}

function repeatPart(bytes: Buffer, random: Random): Buffer {
  const start = random.below(bytes.length + 1);
  const part = bytes.subarray(start, start + random.below(40));
  return Buffer.concat([bytes.subarray(0, start), ...Array.from({ length: 20 }, () => part), bytes.subarray(start)]);
}
