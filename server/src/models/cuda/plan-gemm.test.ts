import assert from "node:assert/strict";
import { test } from "node:test";
import type { CudaType } from "../../device/cuda/cuda-tensor.ts";
import { type GemmDevice, type GemmMatrix, type GemmPlan, type GemmUse, planGemm } from "./plan-gemm.ts";

const HOPPER: GemmDevice = { arch: "sm_90a", numSms: 132, type: "bf16" };
const AMPERE: GemmDevice = { arch: "sm_80", numSms: 108, type: "bf16" };
const DETERMINISTIC: GemmDevice = { ...HOPPER, isDeterministic: true };
const FLOAT32: GemmDevice = { ...HOPPER, type: "f32" };

function matrix(
  type: CudaType,
  [outputs, inputs]: readonly [number, number] = [4096, 4096],
  hasBias = false,
): GemmMatrix {
  const bias = hasBias ? ({ type: "bf16", shape: [outputs] } as const) : undefined;
  return { weight: { type, shape: [outputs, inputs], groupSize: type === "int4" ? 128 : undefined }, bias };
}

function summary({ kernel, operand, epilogue }: GemmPlan): string {
  return `${kernel} ${operand} ${epilogue}`;
}

type Row = readonly [device: GemmDevice, matrix: GemmMatrix, rows: number, use: GemmUse, expected: string];

const [BF16, FP8, INT4] = [matrix("bf16"), matrix("e4m3"), matrix("int4")];
const [BIASED, FP8_BIASED, INT4_BIASED] = (["bf16", "e4m3", "int4"] as const).map((type) =>
  matrix(type, [4096, 4096], true),
);
assert.ok(BIASED && FP8_BIASED && INT4_BIASED);
/** Neither a skinny nor a WGMMA tile fits: 100 inputs are no whole 128 bytes. */
const ODD = matrix("bf16", [500, 100]);
const FP8_ODD = matrix("e4m3", [48, 80]);
const SMALL_GROUPS: GemmMatrix = { ...INT4, weight: { ...INT4.weight, groupSize: 64 } };

const TABLES: Readonly<Record<string, readonly Row[]>> = {
  "picks the kernel by the number of rows": [
    [HOPPER, BF16, 1, {}, "skinny activations complete"],
    [HOPPER, BF16, 8, {}, "skinny activations complete"],
    [HOPPER, BF16, 9, {}, "wgmma activations complete"],
    [HOPPER, BF16, 64, {}, "wgmma activations complete"],
    [HOPPER, BF16, 128, {}, "wgmma activations complete"],
    [HOPPER, BF16, 129, {}, "cublaslt activations complete"],
    [AMPERE, BF16, 16, {}, "skinny activations complete"],
    [AMPERE, BF16, 17, {}, "cublaslt activations complete"],
    [HOPPER, INT4, 8, {}, "int4-skinny activations complete"],
    [HOPPER, INT4, 9, {}, "int4-wgmma activations complete"],
    [HOPPER, INT4, 64, {}, "int4-wgmma activations complete"],
    [HOPPER, INT4, 65, {}, "int4-decode activations complete"],
    [AMPERE, INT4, 64, {}, "int4-skinny activations complete"],
  ],
  "takes rows as FP8 where the kernel for FP8 weights does": [
    [HOPPER, FP8, 8, {}, "skinny activations complete"],
    [HOPPER, FP8, 9, {}, "wgmma fp8 complete"],
    [HOPPER, FP8, 128, {}, "wgmma fp8 complete"],
    [HOPPER, FP8, 129, {}, "cublaslt fp8 complete"],
    [AMPERE, FP8, 16, {}, "skinny activations complete"],
    [AMPERE, FP8, 17, {}, "cublaslt fp8 complete"],
    [HOPPER, FP8_ODD, 4, {}, "cublaslt fp8 complete"],
  ],
  "keeps few rows in FP8 that were quantized with many": [
    [HOPPER, FP8, 4, { operand: "fp8" }, "cublaslt fp8 complete"],
    [HOPPER, FP8, 4, { operand: "fp8", reader: "sums" }, "cublaslt fp8 unscaled"],
  ],
  "leaves shapes to cuBLASLt for which no tile is written": [
    [HOPPER, ODD, 1, {}, "cublaslt activations complete"],
    [HOPPER, ODD, 32, { reader: "sums" }, "cublaslt activations complete"],
    [HOPPER, SMALL_GROUPS, 32, {}, "int4-skinny activations complete"],
  ],
  "defers partial sums only to readers that add them up, without a bias": [
    [HOPPER, BF16, 32, { reader: "sums" }, "wgmma activations partial-sums"],
    [HOPPER, FP8, 32, { reader: "sums" }, "wgmma fp8 partial-sums"],
    [HOPPER, INT4, 32, { reader: "sums" }, "int4-wgmma activations partial-sums"],
    [HOPPER, BF16, 32, { reader: "scales" }, "wgmma activations complete"],
    [HOPPER, BIASED, 32, { reader: "sums" }, "wgmma activations complete"],
    [HOPPER, INT4_BIASED, 32, { reader: "sums" }, "int4-wgmma activations complete"],
    [HOPPER, BF16, 8, { reader: "sums" }, "skinny activations complete"],
    [HOPPER, INT4, 8, { reader: "sums" }, "int4-skinny activations complete"],
    [HOPPER, INT4, 65, { reader: "sums" }, "int4-decode activations complete"],
  ],
  "defers the scales of FP8 GEMMs of cuBLASLt up to 256 rows": [
    [AMPERE, FP8, 17, { reader: "scales" }, "cublaslt fp8 unscaled"],
    [AMPERE, FP8, 256, { reader: "sums" }, "cublaslt fp8 unscaled"],
    [AMPERE, FP8, 257, { reader: "sums" }, "cublaslt fp8 complete"],
    [AMPERE, FP8_BIASED, 32, { reader: "scales" }, "cublaslt fp8 complete"],
    [HOPPER, FP8, 129, { reader: "gate" }, "cublaslt fp8 unscaled"],
    [HOPPER, FP8, 32, { reader: "scales" }, "wgmma fp8 complete"],
  ],
  "applies the gated activation in WGMMA kernels, without a bias": [
    [HOPPER, BF16, 9, { reader: "gate" }, "wgmma activations gated"],
    [HOPPER, FP8, 64, { reader: "gate" }, "wgmma fp8 gated"],
    [HOPPER, INT4, 64, { reader: "gate" }, "int4-wgmma activations gated"],
    [HOPPER, matrix("bf16", [4104, 4096]), 32, { reader: "gate" }, "wgmma activations complete"],
    [HOPPER, BIASED, 32, { reader: "gate" }, "wgmma activations complete"],
    [HOPPER, BF16, 8, { reader: "gate" }, "skinny activations complete"],
    [AMPERE, BF16, 32, { reader: "gate" }, "cublaslt activations complete"],
  ],
  "leaves f32 results of WGMMA sizes to cuBLASLt": [
    [HOPPER, BF16, 8, { outputType: "f32" }, "skinny activations complete"],
    [HOPPER, BF16, 9, { outputType: "f32" }, "cublaslt activations complete"],
    [HOPPER, FP8, 9, { outputType: "f32" }, "cublaslt fp8 complete"],
  ],
  "takes one row as it takes many in the deterministic mode": [
    [DETERMINISTIC, BF16, 1, { reader: "sums" }, "cublaslt activations complete"],
    [DETERMINISTIC, BF16, 32, { reader: "gate" }, "cublaslt activations complete"],
    [DETERMINISTIC, FP8, 1, { reader: "scales" }, "cublaslt fp8 complete"],
    [DETERMINISTIC, INT4, 1, { reader: "gate" }, "int4-decode activations complete"],
  ],
  "computes in f32 with cuBLASLt alone": [
    [FLOAT32, matrix("f32"), 1, {}, "cublaslt activations complete"],
    [FLOAT32, matrix("f32"), 32, { reader: "gate" }, "cublaslt activations complete"],
  ],
};

for (const [title, rows] of Object.entries(TABLES)) {
  test(`planGemm() ${title}`, () => {
    const planned = rows.map(([device, linear, numRows, use]) => summary(planGemm(linear, numRows, device, use)));
    assert.deepEqual(
      planned,
      rows.map(([, , , , expected]) => expected),
    );
  });
}

test("planGemm() gives WGMMA kernels tiles for the rows, with the splits of the epilogue", () => {
  const complete = planGemm(BF16, 20, HOPPER);
  assert.ok(complete.kernel === "wgmma");
  assert.deepEqual([complete.form.rows, complete.form.splits, complete.weightType], [32, 1, "bf16"]);
  const partial = planGemm(FP8, 40, HOPPER, { reader: "sums" });
  assert.ok(partial.kernel === "wgmma");
  assert.deepEqual([partial.form.rows, partial.form.splits, partial.weightType], [64, 2, "e4m3"]);
});

test("planGemm() refuses rows in a form that the matrix does not take", () => {
  assert.throws(
    () => planGemm(BF16, 32, HOPPER, { operand: "fp8" }),
    /matrix of bf16: expected rows as activations, got fp8/,
  );
  assert.throws(
    () => planGemm(FP8, 32, HOPPER, { operand: "activations" }),
    /matrix of e4m3: expected rows as fp8, got activations/,
  );
  assert.throws(
    () => planGemm(INT4, 4, HOPPER, { operand: "fp8" }),
    /matrix of int4: expected rows as activations, got fp8/,
  );
});
