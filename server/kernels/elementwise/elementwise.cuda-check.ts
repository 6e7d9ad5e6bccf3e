/**
 * The elementwise ops, the gated activations and the row copies on a GPU, each against its reference. Sources:
 * elementwise.cu, gated-mul.cu, gather-rows.cu, replace-rows.cu.
 */

import { addRef } from "../add/add.ref.ts";
import type { ElemType } from "../cuda/launch-args.ts";
import { gateRowsRef } from "../gate-rows/gate-rows.ref.ts";
import { type CudaActivation, launchGatedMul } from "../gated-mul/gated-mul.cuda.ts";
import { launchGatherRows } from "../gather-rows/gather-rows.cuda.ts";
import { gatherRowsRef } from "../gather-rows/gather-rows.ref.ts";
import { geluRef } from "../gelu/gelu.ref.ts";
import { geluMulRef } from "../gelu-mul/gelu-mul.ref.ts";
import { launchReplaceRows } from "../replace-rows/replace-rows.cuda.ts";
import { replaceRowsRef } from "../replace-rows/replace-rows.ref.ts";
import { scaleRef } from "../scale/scale.ref.ts";
import { siluMulRef } from "../silu-mul/silu-mul.ref.ts";
import { softCapRef } from "../soft-cap/soft-cap.ref.ts";
import { type CudaCheck, type CudaCheckContext, relativeError } from "../testing/cuda-check.ts";
import {
  allocateFloats,
  type CheckInput,
  downloadFloats,
  seededOrder,
  uploadRandom,
} from "../testing/cuda-check-data.ts";
import {
  launchActivation,
  launchAdd,
  launchAddBias,
  launchGateRows,
  launchScale,
  launchScaleColumns,
  launchSoftCap,
} from "./elementwise.cuda.ts";

const ROWS = 29;
const WIDTH = 1384;
const COUNT = ROWS * WIDTH;
const MAX_ERROR: Readonly<Record<ElemType, number>> = { f32: 2e-6, bf16: 4e-3 };
const TYPES: readonly ElemType[] = ["f32", "bf16"];

/** One op with an input of ROWS x WIDTH and one as large or smaller: launches and gives the expected output. */
type Op = (context: CudaCheckContext, type: ElemType, x: CheckInput, out: bigint) => Float32Array;

const OPS: Readonly<Record<string, Op>> = {
  add: (context, type, x, out) => {
    const b = uploadRandom(context, type, COUNT, 8);
    launchAdd(context.stream, { type, count: COUNT, a: x.pointer, b: b.pointer, out });
    return addRef(x.values, b.values);
  },
  scale: (context, type, x, out) => {
    launchScale(context.stream, { type, count: COUNT, x: x.pointer, out, factor: 0.37 });
    return scaleRef(x.values, 0.37);
  },
  "soft-cap": (context, type, x, out) => {
    launchSoftCap(context.stream, { type, count: COUNT, x: x.pointer, out, cap: 3 });
    return softCapRef(x.values, 3);
  },
  "gelu-tanh": (context, type, x, out) => {
    launchActivation(context.stream, { type, count: COUNT, x: x.pointer, out, activation: "gelu-tanh" });
    return geluRef(x.values, "tanh");
  },
  "gelu-erf": (context, type, x, out) => {
    launchActivation(context.stream, { type, count: COUNT, x: x.pointer, out, activation: "gelu-erf" });
    return geluRef(x.values, "erf");
  },
  "add-bias": (context, type, x, out) => {
    const bias = uploadRandom(context, type, WIDTH, 9);
    launchScale(context.stream, { type, count: COUNT, x: x.pointer, out, factor: 1 });
    launchAddBias(context.stream, { type, count: COUNT, x: out, bias: bias.pointer, width: WIDTH });
    return x.values.map((value, i) => value + (bias.values[i % WIDTH] ?? 0));
  },
  "scale-columns": (context, type, x, out) => {
    const factors = uploadRandom(context, "f32", WIDTH, 14);
    const pointers = { x: x.pointer, factors: factors.pointer, out };
    launchScaleColumns(context.stream, { type, count: COUNT, ...pointers, width: WIDTH });
    return x.values.map((value, i) => value * (factors.values[i % WIDTH] ?? 0));
  },
  "gate-rows": (context, type, x, out) => {
    const gate = uploadRandom(context, type, ROWS, 10);
    launchGateRows(context.stream, { type, count: COUNT, x: x.pointer, gate: gate.pointer, out, width: WIDTH });
    return gateRowsRef(x.values, gate.values);
  },
  "gather-rows": (context, type, x, out) => {
    const ids = seededOrder(ROWS, 11);
    const pointer = context.upload(ids);
    const sizes = { numRows: ROWS, count: ROWS, width: WIDTH, scale: 1.5 };
    launchGatherRows(context.stream, { type, table: x.pointer, ids: pointer, out, ...sizes });
    return scaleRef(gatherRowsRef({ table: x.values, ids, width: WIDTH }), 1.5);
  },
  "gather-rows of chosen ids": (context, type, x, out) => {
    const [ids, chosen] = [seededOrder(ROWS, 11), seededOrder(ROWS, 14)];
    const named = ids.map((id, i) => (i % 3 === 0 ? -2 - i : id));
    const pointers = { table: x.pointer, ids: context.upload(named), carried: context.upload(chosen), out };
    launchGatherRows(context.stream, { type, ...pointers, numRows: ROWS, count: ROWS, width: WIDTH });
    const meant = ids.map((id, i) => (i % 3 === 0 ? (chosen[i] ?? 0) : id));
    return gatherRowsRef({ table: x.values, ids: meant, width: WIDTH });
  },
  "replace-rows": (context, type, x, out) => {
    const rows = seededOrder(ROWS, 12).subarray(0, 5);
    const values = uploadRandom(context, type, 5 * WIDTH, 13);
    launchScale(context.stream, { type, count: COUNT, x: x.pointer, out, factor: 1 });
    const pointers = { x: out, rows: context.upload(rows), values: values.pointer };
    launchReplaceRows(context.stream, { type, ...pointers, numRows: ROWS, count: 5, width: WIDTH });
    return replaceRowsRef({ x: x.values, rows, values: values.values, width: WIDTH });
  },
};

const opChecks: readonly CudaCheck[] = Object.entries(OPS).flatMap(([name, op]) =>
  TYPES.map((type) => ({
    name: `${name} ${type}`,
    maxError: MAX_ERROR[type],
    run: async (context: CudaCheckContext): Promise<number> => {
      const x = uploadRandom(context, type, COUNT, 7, 4);
      const out = allocateFloats(context, type, COUNT);
      const expected = op(context, type, x, out);
      return relativeError(await downloadFloats(context, type, out, COUNT), expected);
    },
  })),
);

const softCapChecks: readonly CudaCheck[] = TYPES.map((type) => ({
  name: `soft-cap ${type} of rows that fill no vector`,
  maxError: MAX_ERROR[type],
  run: async (context: CudaCheckContext): Promise<number> => {
    const count = 3 * 1003;
    const x = uploadRandom(context, type, count, 16, 4);
    const out = allocateFloats(context, type, count);
    launchSoftCap(context.stream, { type, count, x: x.pointer, out, cap: 3 });
    return relativeError(await downloadFloats(context, type, out, count), softCapRef(x.values, 3));
  },
}));

const gatedChecks: readonly CudaCheck[] = (["silu", "gelu-tanh", "gelu-erf"] as const).flatMap((activation) =>
  TYPES.map((type) => ({
    name: `gated-mul ${activation} ${type}`,
    maxError: MAX_ERROR[type],
    run: async (context: CudaCheckContext): Promise<number> => {
      const gateUp = uploadRandom(context, type, 2 * COUNT, 14, 4);
      const out = allocateFloats(context, type, COUNT);
      launchGatedMul(context.stream, { type, activation, gateUp: gateUp.pointer, out, numRows: ROWS, width: WIDTH });
      return relativeError(await downloadFloats(context, type, out, COUNT), gatedRef(activation, gateUp.values));
    },
  })),
);

const quantizedCheck: CudaCheck = {
  name: "gated-mul silu bf16 to e4m3 by row",
  maxError: 4e-2,
  run: async (context) => {
    const gateUp = uploadRandom(context, "bf16", 2 * COUNT, 15, 4);
    const out = allocateFloats(context, "e4m3", COUNT);
    const scales = context.allocate(ROWS * 4);
    launchGatedMul(context.stream, {
      type: "bf16",
      activation: "silu",
      gateUp: gateUp.pointer,
      out,
      quantized: { codes: "e4m3", scales, per: "row" },
      numRows: ROWS,
      width: WIDTH,
    });
    const codes = await downloadFloats(context, "e4m3", out, COUNT);
    const scaleOf = await downloadFloats(context, "f32", scales, ROWS);
    const values = codes.map((code, i) => code * (scaleOf[Math.floor(i / WIDTH)] ?? Number.NaN));
    return relativeError(values, siluMulRef(gateUp.values, WIDTH));
  },
};

/** Rows of sums that the previous GEMM left unscaled. */
const scaledCheck: CudaCheck = {
  name: "gated-mul silu of sums to e4m3 by row",
  maxError: 4e-2,
  run: async (context) => {
    const sums = uploadRandom(context, "bf16", 2 * COUNT, 16, 500);
    const rows = uploadRandom(context, "f32", ROWS, 17, 0.1);
    const columns = uploadRandom(context, "f32", 2 * WIDTH, 18, 0.1);
    const out = allocateFloats(context, "e4m3", COUNT);
    const scales = context.allocate(ROWS * 4);
    launchGatedMul(context.stream, {
      type: "bf16",
      activation: "silu",
      gateUp: sums.pointer,
      sumScales: { rows: rows.pointer, columns: columns.pointer },
      out,
      quantized: { codes: "e4m3", scales, per: "row" },
      numRows: ROWS,
      width: WIDTH,
    });
    const gateUp = sums.values.map(
      (sum, i) =>
        sum *
        (rows.values[Math.floor(i / (2 * WIDTH))] ?? Number.NaN) *
        (columns.values[i % (2 * WIDTH)] ?? Number.NaN),
    );
    const codes = await downloadFloats(context, "e4m3", out, COUNT);
    const scaleOf = await downloadFloats(context, "f32", scales, ROWS);
    const values = codes.map((code, i) => code * (scaleOf[Math.floor(i / WIDTH)] ?? Number.NaN));
    return relativeError(values, siluMulRef(gateUp, WIDTH));
  },
};

export const cudaChecks: readonly CudaCheck[] = [
  ...opChecks,
  ...softCapChecks,
  ...gatedChecks,
  quantizedCheck,
  scaledCheck,
];

function gatedRef(activation: CudaActivation, gateUp: Float32Array): Float32Array {
  if (activation === "silu") return siluMulRef(gateUp, WIDTH);
  return geluMulRef(gateUp, WIDTH, activation === "gelu-tanh" ? "tanh" : "erf");
}
