import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type GroupedConfig, parseQuantizationConfig, type QuantizationConfig } from "../hf/quantization-config.ts";
import { safetensorsBytes, type TensorDraft } from "../tensors/safetensors-writer.test-support.ts";
import { unpackAwq } from "./awq.ts";
import { unpackGptq } from "./gptq.ts";
import { dequantizeRows, packRows } from "./quantized-matrix.ts";
import { openQuantizedTensors } from "./quantized-tensors.ts";

const INPUTS = 64;
const OUTPUTS = 16;
const GROUPS = 2;

function wordsOf(count: number, seed: number): Int32Array {
  return Int32Array.from({ length: count }, (_, i) => Math.imul(i + seed, 0x9e37_79b1));
}

/** FP16 values from 1 to 2. */
function halves(count: number): Uint16Array {
  return Uint16Array.from({ length: count }, (_, i) => 0x3c00 + ((i * 37) % 1024));
}
const widened = (bits: Uint16Array): Float32Array => Float32Array.from(bits, (half) => 1 + (half - 0x3c00) / 1024);

type Drafts = Readonly<Record<string, TensorDraft>>;
const scales: TensorDraft = { dtype: "F16", shape: [GROUPS, OUTPUTS], data: halves(GROUPS * OUTPUTS) };
const zeros = (data: Int32Array): TensorDraft => ({ dtype: "I32", shape: [GROUPS, OUTPUTS / 8], data });
const norm: TensorDraft = { dtype: "F32", shape: [2], data: Float32Array.of(3, 4) };

const AWQ_WEIGHT = wordsOf((INPUTS * OUTPUTS) / 8, 1);
const AWQ_ZEROS = wordsOf((GROUPS * OUTPUTS) / 8, 2);
const AWQ: Drafts = {
  "m.q.qweight": { dtype: "I32", shape: [INPUTS, OUTPUTS / 8], data: AWQ_WEIGHT },
  "m.q.qzeros": zeros(AWQ_ZEROS),
  "m.q.scales": scales,
  "m.norm.weight": norm,
};
const AWQ_CONFIG: GroupedConfig = { method: "awq", bits: 4, groupSize: 32 };

const GPTQ_WEIGHT = wordsOf((INPUTS / 8) * OUTPUTS, 3);
const MIDDLE = new Int32Array((GROUPS * OUTPUTS) / 8).fill(0x7777_7777);
const gptq = (groups: readonly number[], storedZeros: Int32Array = MIDDLE): Drafts => ({
  "m.q.qweight": { dtype: "I32", shape: [INPUTS / 8, OUTPUTS], data: GPTQ_WEIGHT },
  "m.q.qzeros": zeros(storedZeros),
  "m.q.scales": scales,
  "m.q.g_idx": { dtype: "I32", shape: [INPUTS], data: Int32Array.from(groups) },
  "m.q.bias": { dtype: "F16", shape: [OUTPUTS], data: halves(OUTPUTS) },
});
const GPTQ_CONFIG: GroupedConfig = { method: "gptq", bits: 4, groupSize: 32, version: 1, isSymmetric: true };
const RUNS = Array.from({ length: INPUTS }, (_, i) => Math.floor(i / 32));
const MIXED = Array.from({ length: INPUTS }, (_, i) => i % 2);

async function withCheckpoint(tensors: Drafts, use: (directory: string) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "quantized-"));
  try {
    await writeFile(join(directory, "model.safetensors"), safetensorsBytes(tensors));
    await use(directory);
  } finally {
    await rm(directory, { recursive: true });
  }
}

const layer = { inputs: INPUTS, outputs: OUTPUTS, groupSize: 32, scales: widened(halves(GROUPS * OUTPUTS)) };

test("openQuantizedTensors() gives AWQ layers as Q4_1 rows, and other tensors as they are", async () => {
  await withCheckpoint(AWQ, async (directory) => {
    const source = await openQuantizedTensors(directory, AWQ_CONFIG);
    assert.deepEqual([...source.tensors.keys()].sort(), ["m.norm.weight", "m.q.weight"]);
    const weight = source.tensors.get("m.q.weight");
    assert.deepEqual([weight?.dtype, weight?.shape, weight?.byteLength], ["Q4_1", [OUTPUTS, INPUTS], 16 * 40]);
    const matrix = unpackAwq({ ...layer, qweight: AWQ_WEIGHT, qzeros: AWQ_ZEROS });
    const whole = packRows(matrix, "Q4_1", 0, OUTPUTS);
    for (const [from, to] of [
      [0, 640],
      [39, 41],
      [100, 239],
      [639, 640],
      [5, 5],
    ] as const) {
      const piece = new Uint8Array(to - from);
      await source.read("m.q.weight", piece, from);
      assert.deepEqual(piece, whole.slice(from, to));
    }
    const plain = new Float32Array(2);
    await source.read("m.norm.weight", new Uint8Array(plain.buffer));
    assert.deepEqual(plain, Float32Array.of(3, 4));
    await assert.rejects(source.read("m.q.weight", new Uint8Array(2), 639), /lie outside "m\.q\.weight"/);
    await assert.rejects(source.read("m.q.qweight", new Uint8Array(2)), /no tensor "m\.q\.qweight"/);
    await source.close();
  });
});

const KINDS: readonly (readonly [what: string, tensors: Drafts, config: GroupedConfig, dtype: string])[] = [
  ["symmetric GPTQ", gptq(RUNS), GPTQ_CONFIG, "Q4_0"],
  ["GPTQ of the second version whose zeros are those of the first", gptq(RUNS), { ...GPTQ_CONFIG, version: 2 }, "Q4_1"],
  ["GPTQ that only says it is symmetric", gptq(RUNS, AWQ_ZEROS), GPTQ_CONFIG, "Q4_1"],
  ["GPTQ with inputs in the order of their activations", gptq(MIXED), GPTQ_CONFIG, "F32"],
];

for (const [what, tensors, config, dtype] of KINDS) {
  test(`openQuantizedTensors() gives ${what} as ${dtype}`, async () => {
    await withCheckpoint(tensors, async (directory) => {
      const source = await openQuantizedTensors(directory, config);
      assert.equal(source.tensors.get("m.q.weight")?.dtype, dtype);
      assert.ok(source.tensors.has("m.q.bias"));
      await source.close();
    });
  });
}

for (const [what, tensors, config, expected] of [
  ["AWQ layers", AWQ, AWQ_CONFIG, { groupSize: 32, hasZeros: true, hasInputScales: false }],
  ["symmetric GPTQ layers", gptq(RUNS), GPTQ_CONFIG, { groupSize: 32, hasZeros: false, hasInputScales: false }],
  ["layers with groups that are no runs", gptq(MIXED), GPTQ_CONFIG, undefined],
] as const) {
  test(`openQuantizedTensors() says how ${what} are INT4`, async () => {
    await withCheckpoint(tensors, async (directory) => {
      const source = await openQuantizedTensors(directory, config);
      assert.deepEqual(source.integers?.get("m.q.weight")?.int4, expected);
      assert.equal(source.integers?.has("m.norm.weight"), false);
      await source.close();
    });
  });
}

test("openQuantizedTensors() gives INT4 codes, and the floats that they stand for", async () => {
  await withCheckpoint(AWQ, async (directory) => {
    const source = await openQuantizedTensors(directory, AWQ_CONFIG);
    const integers = source.integers?.get("m.q.weight");
    assert.ok(integers !== undefined);
    const matrix = unpackAwq({ ...layer, qweight: AWQ_WEIGHT, qzeros: AWQ_ZEROS });
    const { codes, scales, zeros = [], ...sizes } = await integers.readInt4();
    assert.deepEqual(sizes, { outputs: OUTPUTS, inputs: INPUTS, groupSize: 32, inputScales: undefined });
    assert.deepEqual(
      Array.from({ length: OUTPUTS * INPUTS }, (_, i) => ((codes[i >> 1] ?? 0) >> (4 * (i % 2))) & 15),
      [...matrix.values],
    );
    assert.deepEqual([[...scales], [...zeros]], [[...matrix.scales], [...matrix.zeros]]);
    assert.deepEqual(await integers.readFloats(3, 2), dequantizeRows(matrix, 3, 2));
    await source.close();
  });
});

test("openQuantizedTensors() gives floats that follow g_idx", async () => {
  await withCheckpoint(gptq(MIXED), async (directory) => {
    const source = await openQuantizedTensors(directory, GPTQ_CONFIG);
    const values = new Float32Array(2 * INPUTS);
    await source.read("m.q.weight", new Uint8Array(values.buffer), 3 * INPUTS * 4);
    const groupOf = Int32Array.from(MIXED);
    const matrix = unpackGptq({ ...layer, bits: 4, version: 1, qweight: GPTQ_WEIGHT, qzeros: MIDDLE, groupOf });
    assert.deepEqual(values, dequantizeRows(matrix, 3, 2));
    await source.close();
  });
});

const without = (tensors: Drafts, name: string): Drafts =>
  Object.fromEntries(Object.entries(tensors).filter(([key]) => key !== name));

const REFUSED: readonly (readonly [what: string, tensors: Drafts, config: GroupedConfig, expected: RegExp])[] = [
  ["a layer without scales", without(AWQ, "m.q.scales"), AWQ_CONFIG, /lack tensor "m\.q\.scales"/],
  [
    "zeros of another width",
    { ...AWQ, "m.q.qzeros": { dtype: "I32", shape: [GROUPS, 1], data: new Int32Array(2) } },
    AWQ_CONFIG,
    /"m\.q\.qzeros": expected I32\[2, 2\], got I32\[2, 1\]/,
  ],
  [
    "integers of another type",
    { ...AWQ, "m.q.qweight": { dtype: "U8", shape: [2, 2], data: new Uint8Array(4) } },
    AWQ_CONFIG,
    /"m\.q\.qweight": expected I32\[\*, \*\], got U8/,
  ],
  ["groups that do not divide the inputs", AWQ, { ...AWQ_CONFIG, groupSize: 48 }, /inputs of a multiple of 48, got 64/],
  ["an AWQ layer read as GPTQ", AWQ, GPTQ_CONFIG, /"m\.q\.qweight": expected outputs of a multiple of 8, got 2/],
];

for (const [what, tensors, config, expected] of REFUSED) {
  test(`openQuantizedTensors() refuses ${what}`, async () => {
    await withCheckpoint(tensors, (directory) => assert.rejects(openQuantizedTensors(directory, config), expected));
  });
}

test("read() refuses a g_idx that points nowhere", async () => {
  await withCheckpoint(gptq(MIXED.map((group) => group * 9)), async (directory) => {
    const source = await openQuantizedTensors(directory, GPTQ_CONFIG);
    await assert.rejects(
      source.read("m.q.weight", new Uint8Array(4)),
      /layer "m\.q": g_idx: expected groups from 0 to 1/,
    );
    await source.close();
  });
});

const PARSED: readonly (readonly [json: object, expected: QuantizationConfig | undefined])[] = [
  [{}, undefined],
  [
    { quantization_config: { quant_method: "awq", bits: 4, group_size: 64, version: "GEMM", zero_point: true } },
    { method: "awq", bits: 4, groupSize: 64 },
  ],
  [
    { quantization_config: { quant_method: "gptq", bits: 4, group_size: -1, desc_act: true, sym: true } },
    { method: "gptq", bits: 4, groupSize: Number.POSITIVE_INFINITY, version: 1, isSymmetric: true },
  ],
  [
    { quantization_config: { quant_method: "gptq", bits: 8, group_size: 128, checkpoint_format: "gptq_v2" } },
    { method: "gptq", bits: 8, groupSize: 128, version: 2, isSymmetric: false },
  ],
];

for (const [json, expected] of PARSED) {
  test(`parseQuantizationConfig() reads ${JSON.stringify(json)}`, () => {
    assert.deepEqual(parseQuantizationConfig(json, "config.json"), expected);
  });
}

const UNREAD: readonly (readonly [json: object, expected: RegExp])[] = [
  [
    { quant_method: "bitsandbytes" },
    /quantization_config: quant_method: expected "awq", "gptq", "fp8", .*, got "bitsandbytes"/,
  ],
  [{ quant_method: "awq", bits: 3 }, /bits: expected an integer from 4 to 4, got 3/],
  [{ quant_method: "awq", bits: 4, version: "gemv" }, /version: expected "gemm", got "gemv"/],
  [{ quant_method: "awq", bits: 4, zero_point: false }, /zero_point: expected true, got false/],
  [{ quant_method: "gptq", bits: 5 }, /bits: expected 4 or 8, got 5/],
  [{ quant_method: "gptq", bits: 4, group_size: 0 }, /group_size: expected -1 or a number above zero, got 0/],
  [{ quant_method: "gptq", bits: 4, checkpoint_format: "marlin" }, /checkpoint_format: expected "gptq" or/],
];

for (const [json, expected] of UNREAD) {
  test(`parseQuantizationConfig() refuses ${JSON.stringify(json)}`, () => {
    assert.throws(() => parseQuantizationConfig({ quantization_config: json }, "config.json"), expected);
  });
}
