import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fp8Levels } from "../../core/fp8.ts";
import { parseQuantizationConfig } from "../hf/quantization-config.ts";
import { openSafetensorsFile } from "../tensors/safetensors.ts";
import { safetensorsBytes, type TensorDraft } from "../tensors/safetensors-writer.test-support.ts";
import type { TensorSource } from "../tensors/tensor-source.ts";
import { openCompressedTensors } from "./compressed-tensors.ts";
import { widenFp8Tensors } from "./fp8-tensors.ts";
import { e5m2Values, e8m0Values } from "./fp8-values.ts";

const directory = await mkdtemp(join(tmpdir(), "float8-"));
after(() => rm(directory, { recursive: true }));

/** Values of some bytes by the definition of each format. */
const KNOWN: readonly (readonly [values: Float32Array, byte: number, value: number])[] = [
  [fp8Levels(), 0x00, 0],
  [fp8Levels(), 0x01, 2 ** -9],
  [fp8Levels(), 0x08, 2 ** -6],
  [fp8Levels(), 0x38, 1],
  [fp8Levels(), 0xbc, -1.5],
  [fp8Levels(), 0x7e, 448],
  [fp8Levels(), 0xff, Number.NaN],
  [e5m2Values(), 0x01, 2 ** -16],
  [e5m2Values(), 0x3c, 1],
  [e5m2Values(), 0x7b, 57344],
  [e5m2Values(), 0xfc, Number.NEGATIVE_INFINITY],
  [e5m2Values(), 0x7d, Number.NaN],
  [e8m0Values(), 127, 1],
  [e8m0Values(), 0, Math.fround(2 ** -127)],
];
for (const [values, byte, value] of KNOWN) {
  test(`byte ${byte.toString(16)} of ${values[0x38]}, ${values[0x3c]} is ${value}`, () => {
    assert.equal(values[byte], value);
  });
}

/** Bytes of 1, 2, 3 ... in E4M3. */
const BYTES = [0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c];
const ROWS = 3;
const COLUMNS = 5;
const stored = Uint8Array.from({ length: ROWS * COLUMNS }, (_, i) => BYTES[i % BYTES.length] ?? 0);
const numberAt = (i: number): number => (i % BYTES.length) + 1;
const weight: TensorDraft = { dtype: "F8_E4M3", shape: [ROWS, COLUMNS], data: stored };
const f32 = (shape: readonly number[], ...values: number[]): TensorDraft => ({
  dtype: "F32",
  shape: [...shape],
  data: Float32Array.from(values),
});

async function open(tensors: Record<string, TensorDraft>): Promise<TensorSource> {
  const path = join(await mkdtemp(join(directory, "file-")), "model.safetensors");
  await writeFile(path, safetensorsBytes(tensors));
  return openSafetensorsFile(path);
}

const block = [2, 2] as const;
const SCALES: readonly (readonly [
  what: string,
  extra: Record<string, TensorDraft>,
  scaleOf: (row: number, column: number) => number,
])[] = [
  ["one scale", { "m.weight_scale": f32([], 0.5) }, () => 0.5],
  ["a scale for each row", { "m.weight_scale": f32([ROWS, 1], 1, 2, 4) }, (row) => 2 ** row],
  ["a list of a scale for each row", { "m.weight_scale": f32([ROWS], 1, 2, 4) }, (row) => 2 ** row],
  [
    "a scale for each block, the last ones cut",
    { "m.weight_scale_inv": f32([2, 3], 1, 2, 3, 4, 5, 6) },
    (row, column) => 1 + Math.floor(row / 2) * 3 + Math.floor(column / 2),
  ],
  [
    "scales that are exponents",
    { "m.weight_scale": { dtype: "F8_E8M0", shape: [ROWS, 1], data: Uint8Array.of(127, 128, 126) } },
    (row) => [1, 2, 0.5][row] ?? 0,
  ],
];
for (const [what, extra, scaleOf] of SCALES) {
  test(`read() gives any range of a tensor with ${what}`, async () => {
    const source = widenFp8Tensors(await open({ "m.weight": weight, ...extra }), { block, needsScales: true });
    const expected = Float32Array.from(stored, (_, i) => numberAt(i) * scaleOf(Math.floor(i / COLUMNS), i % COLUMNS));
    const whole = new Uint8Array(expected.buffer);
    assert.deepEqual(source.tensors.get("m.weight"), {
      name: "m.weight",
      dtype: "F32",
      shape: [ROWS, COLUMNS],
      byteLength: 60,
    });
    for (const [from, to] of [
      [0, 60],
      [4, 8],
      [18, 43],
      [59, 60],
      [20, 20],
    ] as const) {
      const piece = new Uint8Array(to - from);
      await source.read("m.weight", piece, from);
      assert.deepEqual(piece, whole.slice(from, to));
    }
    await source.close();
  });
}

const REFUSED: readonly (readonly [what: string, extra: Record<string, TensorDraft>, expected: RegExp])[] = [
  ["no scales", {}, /the weights lack tensor "m\.weight_scale", by which "m\.weight" is multiplied/],
  [
    "scales of another grid",
    { "m.weight_scale_inv": f32([3, 2], 1, 2, 3, 4, 5, 6) },
    /tensor "m\.weight_scale_inv": expected floats \[1\], \[3, 1\] or \[2, 3\] for \[3, 5\], got F32\[3, 2\]/,
  ],
  [
    "scales that are integers",
    { "m.weight_scale": { dtype: "I32", shape: [1], data: Int32Array.of(1) } },
    /"m\.weight_scale": expected floats/,
  ],
];
for (const [what, extra, expected] of REFUSED) {
  test(`widenFp8Tensors() refuses ${what}`, async () => {
    const source = await open({ "m.weight": weight, ...extra });
    assert.throws(() => widenFp8Tensors(source, { block, needsScales: true }), expected);
    await source.close();
  });
}

test("widenFp8Tensors() takes numbers as they are when nobody spoke of scales", async () => {
  const source = widenFp8Tensors(await open({ "m.weight": weight }), { block, needsScales: false });
  const values = new Float32Array(ROWS * COLUMNS);
  await source.read("m.weight", new Uint8Array(values.buffer));
  assert.deepEqual([...values.slice(0, 6)], [1, 2, 3, 4, 5, 6]);
  await source.close();
});

const i32 = (shape: readonly number[], fill = 0): TensorDraft => {
  const count = shape.reduce((product, size) => product * size, 1);
  return { dtype: "I32", shape: [...shape], data: new Int32Array(count).fill(fill) };
};
const shapeOf = (...sizes: bigint[]): TensorDraft => ({ dtype: "I64", shape: [2], data: BigInt64Array.from(sizes) });
const PACKED = {
  "m.weight_packed": i32([2, 8]),
  "m.weight_scale": f32([2, 2], 1, 1, 1, 1),
  "m.weight_shape": shapeOf(2n, 64n),
};
const bytes: TensorDraft = { dtype: "I8", shape: [2, 4], data: new Int8Array(8) };

const REFUSED_INTEGERS: readonly (readonly [what: string, tensors: Record<string, TensorDraft>, expected: RegExp])[] = [
  ["no shape", { ...PACKED, "m.weight_shape": i32([2]) }, /"m\.weight_shape": expected I64\[2\], got I32\[2\]/],
  ["sizes that are none", { ...PACKED, "m.weight_shape": shapeOf(2n, -64n) }, /"m\.weight_shape": expected two sizes/],
  ["words that do not fit", { ...PACKED, "m.weight_packed": i32([2, 9]) }, /"m\.weight_packed": expected 4 or 8 bits/],
  [
    "groups that cut",
    { ...PACKED, "m.weight_scale": f32([2, 3], 1, 1, 1, 1, 1, 1) },
    /groups that divide 64 inputs, got 3/,
  ],
  ["other zeros", { ...PACKED, "m.weight_zero_point": i32([2, 2]) }, /"m\.weight_zero_point": expected I32\[1, 2\]/],
  ["groups that are not there", { ...PACKED, "m.weight_g_idx": i32([64], 2) }, /groups from 0 to 1, got 2/],
  ["bytes without scales", { "m.weight": bytes }, /"m\.weight_scale": expected floats \[1\] or \[2, 1\], got none/],
  [
    "bytes with zeros",
    { "m.weight": bytes, "m.weight_scale": f32([2], 1, 1), "m.weight_zero_point": i32([2]) },
    /bytes with zero points are not supported/,
  ],
];
for (const [what, tensors, expected] of REFUSED_INTEGERS) {
  test(`openCompressedTensors() refuses ${what}`, async () => {
    const source = await open(tensors);
    await assert.rejects(openCompressedTensors(source), expected);
    await source.close();
  });
}

test("openCompressedTensors() follows groups in no order", async () => {
  const order: TensorDraft = { dtype: "I32", shape: [64], data: Int32Array.from({ length: 64 }, (_, i) => i % 2) };
  const packed: TensorDraft = { dtype: "I32", shape: [1, 8], data: new Int32Array(8).fill(0x9999_9999 | 0) };
  const source = await openCompressedTensors(
    await open({
      "m.weight_packed": packed,
      "m.weight_scale": f32([1, 2], 1, 2),
      "m.weight_shape": shapeOf(1n, 64n),
      "m.weight_g_idx": order,
    }),
  );
  const values = new Float32Array(64);
  await source.read("m.weight", new Uint8Array(values.buffer));
  assert.deepEqual([...values.slice(0, 4)], [1, 2, 1, 2]);
  await source.close();
});

const CONFIGS: readonly (readonly [config: object, expected: RegExp])[] = [
  [
    { quant_method: "compressed-tensors", format: "nvfp4-pack-quantized" },
    /format: expected float-quantized, .*got "nvfp4/,
  ],
  [
    { quant_method: "compressed-tensors", format: "dense", sparsity_config: { format: "sparse-24" } },
    /sparsity_config/,
  ],
  [
    { quant_method: "compressed-tensors", transform_config: { config_groups: { a: {} } } },
    /transform_config: expected none/,
  ],
  [{ quant_method: "fp8", weight_block_size: [128] }, /weight_block_size: expected two sizes, got \[128\]/],
  [{ quant_method: "fp8", weight_block_size: [0, 128] }, /weight_block_size: expected two sizes/],
  [{ quant_method: "modelopt", quant_algo: "NVFP4" }, /quant_algo: expected "FP8", got "NVFP4"/],
];
for (const [config, expected] of CONFIGS) {
  test(`parseQuantizationConfig() refuses ${JSON.stringify(config)}`, () => {
    assert.throws(() => parseQuantizationConfig({ quantization_config: config }, "config.json"), expected);
  });
}
