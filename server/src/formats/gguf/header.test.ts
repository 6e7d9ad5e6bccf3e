import assert from "node:assert/strict";
import { test } from "node:test";
import { PrefixTooShort } from "./cursor.ts";
import {
  ARRAY,
  F32,
  type GgufDraft,
  type GgufField,
  type GgufTensorField,
  ggufBytes,
  STRING,
  U32,
  u32,
  u64,
} from "./gguf-writer.test-support.ts";
import { type GgufHeader, parseGgufHeader } from "./header.ts";

const FIELDS: readonly GgufField[] = [
  ["general.architecture", STRING, "llama"],
  ["llama.block_count", U32, 2],
  ["llama.epsilon", F32, 0.5],
  ["tokens", ARRAY, [STRING, ["a", "ä", ""]]],
  ["counts", ARRAY, [U32, [1, 2]]],
];
const TENSORS: readonly GgufTensorField[] = [
  { name: "a", sizes: [4, 2], type: 0, data: new Uint8Array(32).fill(1) },
  { name: "b", sizes: [64, 3], type: 3, data: new Uint8Array(120).fill(2) },
];
const DRAFT: GgufDraft = { fields: FIELDS, tensors: TENSORS };
const parse = (bytes: Uint8Array, fileBytes = bytes.byteLength): GgufHeader =>
  parseGgufHeader(bytes, fileBytes, "x.gguf");

for (const version of [2, 3]) {
  test(`parseGgufHeader() reads metadata and tensors of version ${version}`, () => {
    const bytes = ggufBytes({ ...DRAFT, version });
    const header = parse(bytes);
    assert.deepEqual(
      [...header.metadata],
      [
        ["general.architecture", "llama"],
        ["llama.block_count", 2],
        ["llama.epsilon", 0.5],
        ["tokens", ["a", "ä", ""]],
        ["counts", [1, 2]],
      ],
    );
    const [a, b] = [...header.tensors.values()];
    assert.deepEqual([a?.name, a?.dtype, a?.shape, a?.byteLength], ["a", "F32", [2, 4], 32]);
    assert.deepEqual([b?.name, b?.dtype, b?.shape, b?.byteLength], ["b", "Q4_1", [3, 64], 120]);
    assert.deepEqual([bytes[a?.byteOffset ?? 0], bytes[b?.byteOffset ?? 0]], [1, 2]);
  });
}

test("parseGgufHeader() gives 64-bit integers whole", () => {
  const values = [u64(5n), u64(2n ** 64n - 1n)];
  const fields = values.map((value, i) => [`k${i}`, 10, value] as const);
  assert.deepEqual([...parse(ggufBytes({ fields, tensors: [] })).metadata.values()], [5, 2n ** 64n - 1n]);
});

test("parseGgufHeader() asks for more when the prefix is too short, and for nothing that the file lacks", () => {
  const bytes = ggufBytes(DRAFT);
  const { tensors } = parse(bytes);
  const headerBytes = Math.min(...[...tensors.values()].map(({ byteOffset }) => byteOffset));
  for (const length of [0, 3, 20, 60, headerBytes - 40]) {
    assert.throws(() => parse(bytes.subarray(0, length), bytes.byteLength), PrefixTooShort);
    assert.throws(() => parse(bytes.subarray(0, length)), /^Error: x\.gguf: /);
  }
});

const tensor = (changes: Partial<GgufTensorField>): GgufDraft => ({
  fields: [],
  tensors: [{ name: "t", sizes: [32], type: 0, data: new Uint8Array(128), ...changes }],
});
const field = (type: number, value: unknown): GgufDraft => ({ fields: [["k", type, value]], tensors: [] });
const HUGE = 2n ** 63n;

const REFUSED: readonly (readonly [what: string, draft: GgufDraft, expected: RegExp])[] = [
  ["version 1", { ...DRAFT, version: 1 }, /version: expected 2 or 3, got 1/],
  ["big-endian files", { ...DRAFT, version: 0x0300_0000 }, /expected little-endian, got big-endian/],
  ["more tensors than fit", { ...DRAFT, numTensors: 1000n }, /number of tensors: expected what \d+ bytes can hold/],
  ["2^63 tensors", { ...DRAFT, numTensors: HUGE }, /number of tensors: expected at most/],
  ["more keys than fit", { ...DRAFT, numFields: 60_000n }, /number of keys: expected what/],
  ["2^63 keys", { ...DRAFT, numFields: HUGE }, /number of keys: expected at most/],
  ["a string longer than the file", field(STRING, u64(1_000_000n)), /length of a value: expected what/],
  ["a string above 16 MiB", field(STRING, u64(2n ** 24n + 1n)), /length of a value: expected at most 16777216/],
  ["a string of 2^64 - 1 bytes", field(STRING, u64(2n ** 64n - 1n)), /length of a value: expected at most/],
  ["a string that is not UTF-8", field(STRING, Uint8Array.of(1, 0, 0, 0, 0, 0, 0, 0, 0xff)), /expected UTF-8/],
  ["an array longer than the file", field(ARRAY, Buffer.concat([u32(U32), u64(5000n)])), /items of "k": expected what/],
  ["an array of 2^63 items", field(ARRAY, Buffer.concat([u32(U32), u64(HUGE)])), /items of "k": expected at most/],
  ["an array of arrays", field(ARRAY, Buffer.concat([u32(ARRAY), u64(1n)])), /known type, got type 9/],
  ["a value of no type", field(77, 0), /known type, got type 77/],
  ["a boolean of 2", field(7, Uint8Array.of(2)), /expected 0 or 1/],
  [
    "a key that occurs twice",
    { fields: [...FIELDS, ...FIELDS], tensors: [] },
    /"general.architecture": expected it once/,
  ],
  [
    "an alignment that is no power of two",
    { fields: [["general.alignment", U32, 24]], tensors: [] },
    /general\.alignment: expected a power of two up to 1048576, got 24/,
  ],
  ["an alignment of 0", { fields: [["general.alignment", U32, 0]], tensors: [] }, /a power of two/],
  ["an alignment of text", { fields: [["general.alignment", STRING, "32"]], tensors: [] }, /a power of two/],
  ["a huge alignment", { fields: [["general.alignment", U32, 2 ** 31]], tensors: [] }, /a power of two/],
  ["a tensor that occurs twice", { fields: [], tensors: [...TENSORS, ...TENSORS] }, /tensor "a": expected it once/],
  ["a tensor of no dimension", tensor({ sizes: [] }), /expected 1 to 4 dimensions, got 0/],
  ["a tensor of five dimensions", tensor({ sizes: [1, 1, 1, 1, 32] }), /expected 1 to 4 dimensions, got 5/],
  ["a size of zero", tensor({ sizes: [32, 0] }), /expected sizes above zero that fit a file, got \[32, 0\]/],
  ["sizes whose product overflows", tensor({ sizes: [2n ** 32n, 2n ** 32n] }), /expected sizes above zero that fit/],
  ["a size of 2^63", tensor({ sizes: [HUGE] }), /expected sizes above zero that fit/],
  ["a type that it cannot compute with", tensor({ type: 36 }), /expected type F32, F16.*, got number 36/],
  ["rows of half a block", tensor({ sizes: [48, 2], type: 8 }), /expected rows of a multiple of 32 for Q8_0, got 48/],
  ["an offset between two alignments", tensor({ offset: 16 }), /expected an offset of a multiple of 32, got 16/],
  ["a tensor that ends behind the file", tensor({ sizes: [33] }), /expected its end within the file's \d+ bytes/],
  ["an offset behind the file", tensor({ offset: 2n ** 64n - 32n }), /expected its end within the file's/],
  [
    "tensors that share bytes",
    { fields: [], tensors: [...TENSORS, { name: "c", sizes: [8], type: 0, data: new Uint8Array(32), offset: 32 }] },
    /expected bytes of its own/,
  ],
  ["names of 1025 characters", tensor({ name: "n".repeat(1025) }), /at most 1024 characters, got 1025/],
];

for (const [what, draft, expected] of REFUSED) {
  test(`parseGgufHeader() refuses ${what}`, () => {
    assert.throws(() => parse(ggufBytes(draft)), expected);
  });
}

test("parseGgufHeader() refuses a file of another kind", () => {
  assert.throws(() => parse(new TextEncoder().encode("PK\u0003\u0004 not a model")), /expected a GGUF file/);
});

/** For any bytes: either a header whose tensors lie inside the file, or an Error that names the file. */
function outcomeOf(bytes: Uint8Array): string {
  try {
    const { tensors } = parse(bytes);
    const isInside = [...tensors.values()].every(
      ({ byteOffset, byteLength }) => byteOffset >= 0 && byteLength > 0 && byteOffset + byteLength <= bytes.byteLength,
    );
    return isInside ? "fine" : "outside";
  } catch (error) {
    return error instanceof Error && error.message.startsWith("x.gguf: ") ? "refused" : `threw ${String(error)}`;
  }
}

test("parseGgufHeader() reads or refuses whatever bytes are changed or missing", () => {
  const bytes = ggufBytes({ ...DRAFT, fields: [...FIELDS, ["general.alignment", U32, 32]] });
  const outcomes = new Map<string, number>();
  const note = (outcome: string): unknown => outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  let state = 1;
  const next = (bound: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * bound);
  };
  for (let length = 0; length < bytes.byteLength; length++) note(outcomeOf(bytes.slice(0, length)));
  for (let round = 0; round < 20_000; round++) {
    const changed = bytes.slice();
    for (let i = 0; i <= next(4); i++)
      changed[next(changed.length)] = [0, 1, 0x7f, 0x80, 0xff, next(256)][next(6)] ?? 0;
    note(outcomeOf(changed));
  }
  assert.deepEqual([...outcomes.keys()].sort(), ["fine", "refused"]);
});
