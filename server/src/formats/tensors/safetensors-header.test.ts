import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_SAFETENSORS_HEADER_BYTES, parseHeaderLength, parseSafetensorsHeader } from "./safetensors-header.ts";

function prefixOf(length: bigint): Uint8Array {
  const prefix = new Uint8Array(8);
  new DataView(prefix.buffer).setBigUint64(0, length, true);
  return prefix;
}

function parse(text: string, dataBytes: number): ReturnType<typeof parseSafetensorsHeader> {
  const header = new TextEncoder().encode(text);
  return parseSafetensorsHeader(header, 8 + header.byteLength + dataBytes, "m.safetensors");
}

const entry = (dtype: string, shape: unknown, begin: unknown, end: unknown): string =>
  JSON.stringify({ dtype, shape, data_offsets: [begin, end] });

test("parseSafetensorsHeader() gives ranges counted from the start of the file", () => {
  const text = `{"__metadata__":{"format":"pt"},"b":${entry("BF16", [2, 3], 4, 16)},"a":${entry("F32", [], 0, 4)}}  `;
  const tensors = parse(text, 16);
  const start = 8 + text.length;
  assert.deepEqual(tensors.get("a"), { name: "a", dtype: "F32", shape: [], byteOffset: start, byteLength: 4 });
  assert.deepEqual(tensors.get("b"), {
    name: "b",
    dtype: "BF16",
    shape: [2, 3],
    byteOffset: start + 4,
    byteLength: 12,
  });
});

test("parseSafetensorsHeader() takes tensors without elements, names with colons and quotes, and __proto__", () => {
  const text = `{"a:\\"b":${entry("F32", [0, 5], 0, 0)},"__proto__":${entry("U8", [3], 0, 3)}}`;
  assert.deepEqual([...parse(text, 3).keys()], ['a:"b', "__proto__"]);
});

const HOSTILE: readonly (readonly [what: string, text: string, dataBytes: number, expected: RegExp])[] = [
  ["no JSON", "{", 0, /m\.safetensors: header: expected JSON/],
  ["an array", "[]", 0, /header: expected an object/],
  ["an equal name", `{"a":${entry("U8", [1], 0, 1)},"a":${entry("U8", [1], 0, 1)}}`, 1, /a name occurs twice/],
  ["an equal field", '{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1, /a name occurs twice/],
  ["an overlap", `{"a":${entry("U8", [2], 0, 2)},"b":${entry("U8", [2], 1, 3)}}`, 3, /"b" overlaps/],
  ["equal ranges", `{"a":${entry("U8", [2], 0, 2)},"b":${entry("U8", [2], 0, 2)}}`, 2, /"b" overlaps/],
  ["a hole", `{"a":${entry("U8", [1], 0, 1)},"b":${entry("U8", [1], 2, 3)}}`, 3, /"b" leaves a hole/],
  ["data behind the last", `{"a":${entry("U8", [1], 0, 1)}}`, 5, /cut off or not this header's data/],
  ["data that is missing", `{"a":${entry("U8", [9], 0, 9)}}`, 5, /cut off/],
  ["offsets that run backwards", `{"a":${entry("U8", [1], 2, 1)}}`, 2, /data_offsets: expected a begin and an end/],
  ["negative offsets", `{"a":${entry("U8", [1], -1, 0)}}`, 0, /data_offsets/],
  ["fractions", `{"a":${entry("U8", [1.5], 0, 1)}}`, 1, /shape: expected at most 8 sizes/],
  ["negative sizes", `{"a":${entry("U8", [-1, -1], 0, 1)}}`, 1, /shape/],
  ["nine dimensions", `{"a":${entry("U8", Array(9).fill(1), 0, 1)}}`, 1, /shape/],
  [
    "sizes whose product overflows",
    `{"a":${entry("F64", Array(8).fill(2 ** 52), 0, 8)}}`,
    8,
    /expected .* bytes for F64/,
  ],
  ["a size that does not fit its range", `{"a":${entry("F32", [2], 0, 4)}}`, 4, /expected 8 bytes for F32\[2\], got 4/],
  ["an unknown dtype", `{"a":${entry("Q4", [1], 0, 1)}}`, 1, /dtype: expected one of .*, got "Q4"/],
  ["a dtype from the prototype", `{"a":${entry("toString", [1], 0, 1)}}`, 1, /dtype/],
  ["a tensor that is no object", '{"a":7}', 0, /tensor "a": expected an object/],
  ["a name of 1025 characters", `{"${"n".repeat(1025)}":${entry("U8", [1], 0, 1)}}`, 1, /at most 1024 characters/],
];

for (const [what, text, dataBytes, expected] of HOSTILE) {
  test(`parseSafetensorsHeader() refuses ${what}`, () => {
    assert.throws(() => parse(text, dataBytes), expected);
  });
}

test("parseSafetensorsHeader() takes a name of 1024 characters", () => {
  assert.equal(parse(`{"${"n".repeat(1024)}":${entry("U8", [1], 0, 1)}}`, 1).size, 1);
});

test("parseSafetensorsHeader() refuses bytes that are not UTF-8", () => {
  assert.throws(() => parseSafetensorsHeader(Uint8Array.of(0xff, 0xfe), 10, "m"), /m: header: expected UTF-8/);
});

test("parseHeaderLength() takes lengths up to the cap and the file, and no further", () => {
  const cap = MAX_SAFETENSORS_HEADER_BYTES;
  assert.equal(parseHeaderLength(prefixOf(92n), 100, "m"), 92);
  assert.equal(parseHeaderLength(prefixOf(BigInt(cap)), 2 * cap, "m"), cap);
  for (const [length, fileBytes] of [
    [93n, 100],
    [BigInt(cap + 1), 2 * cap],
    [2n ** 64n - 1n, 100],
    [0n, 100],
  ] as const) {
    assert.throws(() => parseHeaderLength(prefixOf(length), fileBytes, "m"), /m: header length: expected 2 to/);
  }
  assert.throws(() => parseHeaderLength(new Uint8Array(3), 3, "m"), /expected a safetensors file, got 3 bytes/);
});
