import assert from "node:assert/strict";
import { test } from "node:test";
import { planInt4 } from "../../../kernels/int4-linear/int4-linear.cuda.ts";
import { int4WgmmaWorkspaceBytes, planInt4Wgmma } from "../../../kernels/int4-linear/int4-wgmma-plan.ts";
import { packInt4 } from "../../../kernels/int4-linear/pack-int4.ts";
import { quantizeInt4 } from "../../../kernels/int4-linear/quantize-int4.ts";
import type { CudaTensor } from "../../device/cuda/cuda-tensor.ts";
import type { DenseGemm } from "../../device/cuda/dense-gemm.ts";
import { FakeKernelStream } from "../../device/cuda/fake-kernel-stream.ts";
import { placeRegions } from "../../device/cuda/regions.ts";
import type { StoredInt4Matrix } from "../../formats/tensors/stored-int4.ts";
import type { IntegerTensor, TensorSource } from "../../formats/tensors/tensor-source.ts";
import type { WeightPlan } from "../weights/weight-plan.ts";
import { int4Tensor, planInt4Matrix, planInt4Scratch, readInt4Matrix } from "./int4.ts";
import { enqueueInt4Gemm, type Int4GemmArgs } from "./int4-gemm.ts";
import { planGemm } from "./plan-gemm.ts";

const DEVICE = { arch: "sm_90a", numSms: 132 };

function matrixPlan(names: Readonly<Record<string, number>>, inputs: number): WeightPlan {
  const sources = Object.entries(names).map(
    ([name, rows]) => ({ name, shape: [rows, inputs], change: "none" }) as const,
  );
  const outputs = sources.reduce((sum, { shape: [rows] }) => sum + rows, 0);
  return { kind: "matrix", isGemmOperand: true, shape: [outputs, inputs], sources };
}

function floats(count: number, seed: number): Float32Array {
  return Float32Array.from({ length: count }, (_, i) => Math.sin(i * 1.7 + seed));
}

function stored(matrix: StoredInt4Matrix): IntegerTensor {
  const { groupSize, zeros } = matrix;
  return {
    int4: { groupSize, hasZeros: zeros !== undefined, hasInputScales: matrix.inputScales !== undefined },
    readInt4: () => Promise.resolve(matrix),
    readFloats: () => Promise.reject(new Error("not asked for")),
  };
}

function filesOf(entries: Readonly<Record<string, IntegerTensor>>): Pick<TensorSource, "integers"> {
  return { integers: new Map(Object.entries(entries)) };
}

const noRows = (): Promise<never> => Promise.reject(new Error("no floats to be read"));

test("planInt4Matrix() keeps integers of one group size as they are, with zeros when one part has them", () => {
  const plain = stored(quantizeInt4(floats(64 * 128, 1), 128, { groupSize: 64, hasZeros: false }));
  const shifted = stored(quantizeInt4(floats(64 * 128, 2), 128, { groupSize: 64, hasZeros: true }));
  const plan = matrixPlan({ a: 64, b: 64 }, 128);
  const symmetric = planInt4Matrix(plan, filesOf({ a: plain, b: plain }), false);
  assert.deepEqual([symmetric?.groupSize, symmetric?.hasZeros, symmetric?.zerosAt], [64, false, undefined]);
  const mixed = planInt4Matrix(plan, filesOf({ a: plain, b: shifted }), false);
  // 128 x 128 / 2 bytes of codes, 256 scales of two bytes, 256 zeros of half a byte; each from a multiple of 256 on.
  assert.deepEqual([mixed?.scalesAt, mixed?.zerosAt, mixed?.numBytes], [8192, 8704, 8960]);
});

test("planInt4Matrix() makes INT4 of floats when asked, in the largest groups that divide the inputs", () => {
  const groupOf = (inputs: number): number | undefined =>
    planInt4Matrix(matrixPlan({ a: 64 }, inputs), {}, true)?.groupSize;
  assert.deepEqual([groupOf(4096), groupOf(192), groupOf(96), groupOf(100)], [128, 64, undefined, undefined]);
  assert.equal(planInt4Matrix(matrixPlan({ a: 64 }, 4096), {}, false), undefined);
});

for (const [what, plan, files, isWanted] of [
  ["outputs that are no whole blocks", matrixPlan({ a: 32 }, 128), {}, true],
  [
    "parts of different groups",
    matrixPlan({ a: 64, b: 64 }, 128),
    filesOf({ a: groupsOf(64), b: groupsOf(32) }),
    false,
  ],
  ["groups that the kernel does not take", matrixPlan({ a: 64 }, 128), filesOf({ a: groupsOf(16) }), false],
  ["INT8", matrixPlan({ a: 64 }, 128), filesOf({ a: groupsOf(undefined) }), true],
  ["transposed floats", transposed(matrixPlan({ a: 64 }, 128)), {}, true],
] as const) {
  test(`planInt4Matrix() leaves ${what} to other types`, () => {
    assert.equal(planInt4Matrix(plan, files, isWanted), undefined);
  });
}

function groupsOf(groupSize: number | undefined): IntegerTensor {
  const int4 = groupSize === undefined ? undefined : { groupSize, hasZeros: false, hasInputScales: false };
  return { int4, readInt4: noRows, readFloats: noRows };
}

function transposed(plan: WeightPlan): WeightPlan {
  return { ...plan, sources: plan.sources.map((source) => ({ ...source, change: "transpose" as const })) };
}

test("readInt4Matrix() stacks parts, those without zeros of their own as if these were 8", async () => {
  const first = quantizeInt4(floats(64 * 128, 1), 128, { groupSize: 128, hasZeros: true });
  const second = quantizeInt4(floats(64 * 128, 2), 128, { groupSize: 128, hasZeros: false });
  const files = filesOf({ a: stored(first), b: stored(second) });
  const plan = matrixPlan({ a: 64, b: 64 }, 128);
  const packed = await readInt4Matrix(plan, { groupSize: 128, hasZeros: true, hasInputScales: false }, files, noRows);
  const whole = packInt4({
    outputs: 128,
    inputs: 128,
    groupSize: 128,
    codes: Uint8Array.from([...first.codes, ...second.codes]),
    scales: Float32Array.from([...first.scales, ...second.scales]),
    zeros: Uint8Array.from([...(first.zeros ?? []), ...new Uint8Array(64).fill(8)]),
  });
  assert.deepEqual(packed, whole);
});

test("readInt4Matrix() rounds floats, piece by piece as if at once", async () => {
  const [rows, inputs] = [1088, 64];
  const values = floats(rows * inputs, 3);
  const pieces: number[] = [];
  const packed = await readInt4Matrix(
    matrixPlan({ a: rows }, inputs),
    { groupSize: 64, hasZeros: false, hasInputScales: false },
    {},
    (_name, first, count) => {
      pieces.push(count);
      return Promise.resolve(values.slice(first * inputs, (first + count) * inputs));
    },
  );
  assert.deepEqual(packed, packInt4(quantizeInt4(values, inputs, { groupSize: 64, hasZeros: false })));
  assert.deepEqual(pieces, [512, 512, 64]);
});

test("planInt4Scratch() has room for every number of rows of every shape", () => {
  const shapes = [
    { outputs: 6144, inputs: 4096, hasInputScales: false },
    { outputs: 4096, inputs: 14336, hasInputScales: true },
    { outputs: 4096, inputs: 14336, hasInputScales: true },
  ];
  const scratch = planInt4Scratch(DEVICE, shapes, 256);
  assert.ok(scratch !== undefined);
  const { offsets } = scratch;
  for (const { outputs, inputs } of shapes) {
    for (let rows = 1; rows <= 64; rows++) {
      const { numSplits, numRowBlocks } = planInt4(DEVICE, rows, outputs, inputs);
      assert.ok((outputs / 64) * numRowBlocks * 4 <= offsets.partials);
      assert.ok(numSplits * rows * outputs * 4 <= offsets.decoded - offsets.partials);
      const form = planInt4Wgmma(DEVICE.numSms, { numRows: rows, outputs, inputs, use: "whole" });
      const ofGroups = form && int4WgmmaWorkspaceBytes(outputs, form, rows);
      assert.ok(ofGroups !== undefined && ofGroups.counters <= offsets.partials);
      assert.ok(ofGroups.partials <= offsets.decoded - offsets.partials);
    }
    assert.ok(2 * outputs * inputs <= offsets.scaled - offsets.decoded);
  }
  assert.equal(scratch.numBytes - offsets.scaled, 2 * 256 * 14336);
  assert.equal(planInt4Scratch(DEVICE, [], 256), undefined);
});

test("planInt4Scratch() keeps no decoded matrix when steps are small", () => {
  const scratch = planInt4Scratch(DEVICE, [{ outputs: 4096, inputs: 4096, hasInputScales: false }], 64);
  assert.equal(scratch?.offsets.decoded, scratch?.numBytes);
});

function enqueue(rows: number, factors?: bigint, arch = "sm_90a"): { kernels: string[]; gemms: DenseGemm[] } {
  const layout = planInt4Matrix(matrixPlan({ a: 128 }, 256), {}, true);
  const scratch = planInt4Scratch(DEVICE, [{ outputs: 128, inputs: 256, hasInputScales: true }], 256);
  assert.ok(layout !== undefined && scratch !== undefined);
  const weight: CudaTensor = { ...int4Tensor(4096n, [128, 256], layout), inputScales: factors };
  const stream = new FakeKernelStream(DEVICE.numSms, arch);
  const gemms: DenseGemm[] = [];
  const memory = placeRegions(scratch, 2n ** 20n);
  const run = (gemm: DenseGemm): void => void gemms.push(gemm);
  const bias: CudaTensor = { address: 2n, type: "bf16", shape: [128] };
  const args: Int4GemmArgs = { x: 1n, linear: { weight, bias }, rows, out: 3n, activation: "silu" };
  const plan = planGemm(args.linear, rows, { ...DEVICE, arch, type: "bf16" });
  enqueueInt4Gemm({ stream, gemms: { run }, memory }, plan, args);
  return { kernels: stream.launches.map(({ spec }) => spec.name), gemms };
}

test("enqueueInt4Gemm() multiplies up to 64 rows with the codes, and decodes the matrix for more", () => {
  assert.deepEqual(enqueue(1), { kernels: ["int4_linear"], gemms: [] });
  assert.deepEqual(enqueue(64, undefined, "sm_80").kernels, ["int4_linear"]);
  const { kernels, gemms } = enqueue(65);
  assert.deepEqual(kernels, ["int4_decode"]);
  const [product] = gemms;
  assert.deepEqual([product?.rows, product?.outputs, product?.inputs, product?.inputType], [65, 128, 256, "bf16"]);
  assert.deepEqual([product?.hasBias, product?.bias, product?.x, product?.y], [true, 2n, 1n, 3n]);
});

test("enqueueInt4Gemm() gives 9 to 64 rows to WGMMA, where the device has it", () => {
  assert.deepEqual(enqueue(8).kernels, ["int4_linear"]);
  assert.deepEqual(enqueue(9).kernels, ["int4_wgmma"]);
  assert.deepEqual(enqueue(64, 77n), { kernels: ["scale_columns", "int4_wgmma"], gemms: [] });
});

test("enqueueInt4Gemm() multiplies inputs by scales of their own first", () => {
  assert.deepEqual(enqueue(3, 77n).kernels, ["scale_columns", "int4_linear"]);
  const { kernels, gemms } = enqueue(65, 77n);
  assert.deepEqual(kernels, ["scale_columns", "int4_decode"]);
  assert.notEqual(gemms[0]?.x, 1n);
});

test("readInt4Matrix() gives the scales of inputs that parts share, and refuses parts that differ", async () => {
  const part = (factor: number): IntegerTensor =>
    stored({
      ...quantizeInt4(floats(64 * 64, 1), 64, { groupSize: 64, hasZeros: false }),
      inputScales: new Float32Array(64).fill(factor),
    });
  const plan = matrixPlan({ a: 64, b: 64 }, 64);
  const layout = planInt4Matrix(plan, filesOf({ a: part(2), b: part(2) }), false);
  assert.ok(layout !== undefined);
  assert.equal(layout.inputScalesAt, 4352); // behind 4,096 bytes of codes and 256 of scales
  const { inputScales } = await readInt4Matrix(plan, layout, filesOf({ a: part(2), b: part(2) }), noRows);
  assert.deepEqual(inputScales, new Float32Array(64).fill(2));
  await assert.rejects(
    readInt4Matrix(plan, layout, filesOf({ a: part(2), b: part(3) }), noRows),
    /"a" and "b": expected equal scales of their inputs/,
  );
});

test("enqueueInt4Gemm() refuses a matrix without scales", () => {
  const weight: CudaTensor = { address: 1n, type: "int4", shape: [128, 256] };
  const memory = { counters: 1n, partials: 2n, decoded: 3n, scaled: 4n };
  const linear = { weight, bias: undefined };
  const device = { stream: new FakeKernelStream(), gemms: { run: (): void => undefined }, memory };
  const plan = planGemm(linear, 1, { ...DEVICE, type: "bf16" });
  const args = { x: 1n, linear, rows: 1, out: 3n, activation: "silu" } as const;
  assert.throws(() => enqueueInt4Gemm(device, plan, args), /without scales/);
});
