import assert from "node:assert/strict";
import { test } from "node:test";
import { createElementConverter } from "../../device/cpu/element-converter.ts";
import {
  isPackedDtype,
  PACKED_BLOCKS,
  type PackedDtype,
  type StoredTensor,
  type TensorSource,
  tensorBytes,
} from "../../formats/tensors/tensor-source.ts";
import { planInt4Matrix } from "../cuda/int4.ts";
import { weightTypeOf } from "./weight-types.ts";
import { describeBlocks, widenBlocks } from "./widened-tensors.ts";

const [ROWS, COLUMNS] = [64, 256] as const;
const convert = createElementConverter();
const VALUES = Float32Array.from({ length: ROWS * COLUMNS }, (_, i) => Math.sin(i * i + 1));

function sourceOf(dtypes: Readonly<Record<string, StoredTensor["dtype"]>>): TensorSource {
  const bytes = new Map<string, Uint8Array>();
  const tensors = new Map<string, StoredTensor>();
  for (const [name, dtype] of Object.entries(dtypes)) {
    const shape = [ROWS, COLUMNS];
    bytes.set(name, convert("f32", weightTypeOf(dtype) ?? "f32", new Uint8Array(VALUES.buffer)));
    tensors.set(name, { name, dtype, shape, byteLength: tensorBytes(dtype, shape) });
  }
  const read = async (name: string, into: Uint8Array, at = 0): Promise<void> =>
    into.set(bytes.get(name)?.subarray(at, at + into.byteLength) ?? []);
  return { tensors, read, close: async () => undefined };
}

async function widened(source: TensorSource, name: string): Promise<Float32Array> {
  const stored = source.tensors.get(name);
  assert.ok(stored !== undefined && isPackedDtype(stored.dtype));
  const bytes = new Uint8Array(stored.byteLength);
  await source.read(name, bytes);
  return new Float32Array(convert(weightTypeOf(stored.dtype) ?? "f32", "f32", bytes).buffer);
}

/** Made by tools that know the inputs of a model. */
const BY_IMPORTANCE: readonly string[] = ["IQ2_XXS", "IQ2_XS", "IQ1_S"];
const DTYPES = (Object.keys(PACKED_BLOCKS) as PackedDtype[]).filter((dtype) => !BY_IMPORTANCE.includes(dtype));

for (const dtype of DTYPES) {
  test(`widenBlocks() reads any part of a tensor of ${dtype} as floats`, async () => {
    const source = sourceOf({ a: dtype });
    const expected = await widened(source, "a");
    const wide = widenBlocks(source);
    const { dtype: type, byteLength } = wide.tensors.get("a") ?? {};
    assert.deepEqual([type, byteLength], ["F32", 4 * ROWS * COLUMNS]);
    for (const [first, count] of [
      [0, ROWS * COLUMNS],
      [3, 10],
      [COLUMNS - 1, 2 * COLUMNS + 5],
      [ROWS * COLUMNS - 7, 7],
    ] as const) {
      const into = new Float32Array(count);
      await wide.read("a", new Uint8Array(into.buffer), 4 * first);
      assert.deepEqual(into, expected.subarray(first, first + count), `from ${first}`);
    }
    const rows = await wide.readWidened?.("a", "bf16", 3, 2);
    const narrow = convert("f32", "bf16", new Uint8Array(expected.slice(3 * COLUMNS, 5 * COLUMNS).buffer));
    assert.deepEqual(rows, narrow);
    await assert.rejects(wide.read("a", new Uint8Array(8), 4 * ROWS * COLUMNS - 4), /outside "a"/);
  });
}

test("widenBlocks() gives the integers of Q4_0 as groups of 32 with the same numbers", async () => {
  const source = sourceOf({ a: "Q4_0", b: "Q4_1" });
  const wide = widenBlocks(source);
  const integers = wide.integers?.get("a");
  assert.ok(integers !== undefined);
  assert.equal(wide.integers?.has("b"), false);
  const { codes, scales, zeros, groupSize } = await integers.readInt4();
  assert.equal(zeros, undefined);
  const numbers = Float32Array.from(VALUES, (_, i) => {
    const code = ((codes[i >> 1] ?? 0) >> (4 * (i % 2))) & 15;
    return (code - 8) * (scales[Math.floor(i / groupSize)] ?? 0);
  });
  const expected = await widened(source, "a");
  assert.deepEqual(numbers, expected);
  assert.deepEqual(await integers.readFloats(5, 2), expected.subarray(5 * COLUMNS, 7 * COLUMNS));
});

test("a matrix of Q4_0 stays INT4 on a GPU unless it is stacked with another type", () => {
  const wide = widenBlocks(sourceOf({ a: "Q4_0", b: "Q4_0", c: "Q6_K" }));
  const plan = (...names: string[]) =>
    planInt4Matrix(
      {
        kind: "matrix",
        isGemmOperand: true,
        shape: [ROWS * names.length, COLUMNS],
        sources: names.map((name) => ({ name, shape: [ROWS, COLUMNS], change: "none" })),
      },
      wide,
      false,
    );
  assert.equal(plan("a", "b")?.groupSize, 32);
  assert.equal(plan("a", "c"), undefined);
});

test("widenBlocks() gives back a source without blocks", () => {
  const source = sourceOf({ a: "BF16" });
  assert.equal(widenBlocks(source), source);
});

test("describeBlocks() counts what becomes of tensors in blocks", () => {
  const wide = widenBlocks(sourceOf({ a: "Q4_0", b: "Q4_0", c: "Q6_K", d: "F32" }));
  const placed = [
    { type: "int4", sources: [{ name: "a" }, { name: "b" }] },
    { type: "bf16", sources: [{ name: "c" }] },
    { type: "f32", sources: [{ name: "d" }] },
  ];
  assert.equal(describeBlocks(placed, wide), "2 of Q4_0 as int4, 1 of Q6_K as bf16");
});
