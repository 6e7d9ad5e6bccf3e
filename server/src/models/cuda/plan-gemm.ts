/**
 * Decides how rows are multiplied with a matrix on a GPU: which kernel does it, in which form it takes the rows, and how much of
 * the result is left to the kernel that reads it. Pure: it depends on types, shapes and the device. gemm.ts executes the plan.
 *
 * | matrix    | rows    | kernel                                                                  |
 * |-----------|---------|-------------------------------------------------------------------------|
 * | bf16, FP8 | 1-16    | skinny: bf16 rows straight from the weights, where no WGMMA tile fits    |
 * | bf16, FP8 | 9-128   | wgmma, on sm_90a: scales, bias and the gated activation in the epilogue  |
 * | INT4      | 1-64    | int4-skinny; from 9 rows on int4-wgmma, on sm_90a                        |
 * | INT4      | 65-     | int4-decode: decoded to bf16, then cuBLASLt                              |
 * | any other | any     | cublaslt, FP8 rows (one scale a row) for FP8 weights                     |
 *
 * In the deterministic mode a row's result may not depend on how many rows there are: only cublaslt and int4-decode serve.
 */
import type { ElemType } from "../../../kernels/cuda/launch-args.ts";
import { INT4_MAX_ROWS } from "../../../kernels/int4-linear/int4-linear.cuda.ts";
import { int4WgmmaTileConfig } from "../../../kernels/int4-linear/int4-wgmma.cuda.ts";
import type { Int4WgmmaTileConfig, Int4WgmmaUse } from "../../../kernels/int4-linear/int4-wgmma-plan.ts";
import {
  isSkinnyShape,
  SKINNY_MAX_ROWS,
  type SkinnyWeightType,
} from "../../../kernels/skinny-gemm/skinny-gemm.cuda.ts";
import { wgmmaTileConfig } from "../../../kernels/wgmma-gemm/wgmma-gemm.cuda.ts";
import type { WgmmaTileConfig } from "../../../kernels/wgmma-gemm/wgmma-plan.ts";
import type { CudaTensor } from "../../device/cuda/cuda-tensor.ts";
import type { KernelStream } from "../../device/cuda/kernel-stream.ts";
import type { Linear } from "../weights/weight-plan.ts";

/** The right side of a GEMM, as far as plans depend on it. */
export type GemmMatrix = Linear<Pick<CudaTensor, "type" | "shape" | "groupSize">>;

/** Inputs of a plan beside the matrix: the device, and how the model computes. */
export interface GemmDevice extends Pick<KernelStream, "arch" | "numSms"> {
  /** Type of activations. */
  readonly type: ElemType;
  readonly isDeterministic?: boolean | undefined;
}

/** How the rows on the left come: activations, or FP8 (E4M3) codes with a scale per row. */
export type GemmOperand = "activations" | "fp8";

/**
 * Work that the kernel behind the GEMM can take over: none; the scales of rows and columns; those and split-K partial
 * sums; or none, because the GEMM applies the gated activation and replaces that kernel.
 */
export type GemmReader = "complete" | "scales" | "sums" | "gate";

/** Form of the result: complete; sums of FP8 codes without their scales; split-K partial sums; or gated activations. */
export type GemmEpilogue = "complete" | "unscaled" | "partial-sums" | "gated";

export interface GemmUse {
  /** "complete" unless given. */
  readonly reader?: GemmReader;
  /** Type of complete results; by default that of activations. */
  readonly outputType?: ElemType;
  /** The form that the rows have already; undefined: the plan chooses. */
  readonly operand?: GemmOperand | undefined;
}

/** A kernel and, of those with several tilings, the one that suits. */
export type GemmKernel =
  | { readonly kernel: "skinny"; readonly weightType: SkinnyWeightType }
  | { readonly kernel: "wgmma"; readonly form: WgmmaTileConfig; readonly weightType: SkinnyWeightType }
  | { readonly kernel: "int4-skinny" | "int4-decode" | "cublaslt" }
  | { readonly kernel: "int4-wgmma"; readonly form: Int4WgmmaTileConfig };

export type GemmPlan = GemmKernel & { readonly operand: GemmOperand; readonly epilogue: GemmEpilogue };

/** Fewer rows leave most of a WGMMA tile unused. */
const MIN_WGMMA_ROWS = 9;
/** cuBLASLt is as fast from there on. */
const MAX_WGMMA_ROWS = 128;
/** From more rows on cuBLASLt is as fast with scales as without. */
const MAX_UNSCALED_ROWS = 256;

/** @throws Error when the matrix does not take rows of the form given */
export function planGemm(matrix: GemmMatrix, rows: number, device: GemmDevice, use: GemmUse = {}): GemmPlan {
  return matrix.weight.type === "int4"
    ? planInt4Gemm(matrix, rows, device, use)
    : planFloatGemm(matrix, rows, device, use);
}

function planFloatGemm(matrix: GemmMatrix, rows: number, device: GemmDevice, use: GemmUse): GemmPlan {
  const { weight, bias } = matrix;
  const wgmma = planWgmma(matrix, rows, device, "complete");
  const weightType = wgmma === undefined ? skinnyType(weight, rows, device) : undefined;
  const preferred = weight.type === "e4m3" && weightType === undefined ? "fp8" : "activations";
  const { reader = "complete", outputType = device.type, operand = preferred } = use;
  expectOperand(weight, operand, preferred);
  // Some of many rows that were quantized stay FP8, however few they are.
  if (weightType !== undefined && operand === "activations") {
    return { kernel: "skinny", weightType, operand, epilogue: "complete" };
  }
  if (wgmma !== undefined) {
    const special = bias === undefined ? planEpilogue(matrix, rows, device, reader) : undefined;
    if (special !== undefined) return { ...special, operand };
    if (outputType === device.type) return { ...wgmma, operand, epilogue: "complete" };
  }
  const isUnscaled =
    reader !== "complete" &&
    operand === "fp8" &&
    bias === undefined &&
    wgmma === undefined &&
    rows <= MAX_UNSCALED_ROWS &&
    device.isDeterministic !== true;
  return { kernel: "cublaslt", operand, epilogue: isUnscaled ? "unscaled" : "complete" };
}

function expectOperand({ type }: GemmMatrix["weight"], operand: GemmOperand, preferred: GemmOperand): void {
  if (operand === preferred || (operand === "fp8" && type === "e4m3")) return;
  throw new Error(`a GEMM with a matrix of ${type}: expected rows as ${preferred}, got ${operand}`);
}

/** FP8 weights too are multiplied with the rows as they are: for few rows, quantizing them would take longer. */
function skinnyType(
  { type: kept, shape: [outputs = 0, inputs = 0] }: GemmMatrix["weight"],
  rows: number,
  { type, isDeterministic }: GemmDevice,
): SkinnyWeightType | undefined {
  if (type !== "bf16" || isDeterministic === true || (kept !== "bf16" && kept !== "e4m3")) return undefined;
  return rows <= SKINNY_MAX_ROWS[kept] && isSkinnyShape(kept, outputs, inputs) ? kept : undefined;
}

type WgmmaPlan = Extract<GemmKernel, { readonly kernel: "wgmma" }>;

function planWgmma(
  { weight: { type: weightType, shape } }: GemmMatrix,
  rows: number,
  device: GemmDevice,
  use: "complete" | "partial-sums" | "gated",
): WgmmaPlan | undefined {
  const isFew = rows >= MIN_WGMMA_ROWS && rows <= MAX_WGMMA_ROWS;
  const isWritten = device.type === "bf16" && device.isDeterministic !== true && isFew;
  if (!isWritten || (weightType !== "bf16" && weightType !== "e4m3")) return undefined;
  const [matrixRows = 0, inputs = 0] = shape;
  const flags = { isGated: use === "gated", keepsPartials: use === "partial-sums" };
  const form = wgmmaTileConfig(device, { weightType, numRows: rows, matrixRows, inputs, ...flags });
  return form && { kernel: "wgmma", form, weightType };
}

/** Chooses a deferred epilogue if it makes a WGMMA GEMM faster than a complete one. */
function planEpilogue(
  matrix: GemmMatrix,
  rows: number,
  device: GemmDevice,
  reader: GemmReader,
): (WgmmaPlan & { readonly epilogue: GemmEpilogue }) | undefined {
  const epilogue = EPILOGUES[reader];
  const plan = epilogue && planWgmma(matrix, rows, device, epilogue);
  if (plan === undefined || epilogue === undefined) return undefined;
  return isWorthwhile(epilogue, plan.form) ? { ...plan, epilogue } : undefined;
}

/** The part of the epilogue that WGMMA kernels defer or fuse for each reader; they apply scales themselves. */
const EPILOGUES: Readonly<Record<GemmReader, "partial-sums" | "gated" | undefined>> = {
  complete: undefined,
  scales: undefined,
  sums: "partial-sums",
  gate: "gated",
};
const INT4_USES = { complete: "whole", "partial-sums": "parts", gated: "gated" } as const satisfies Readonly<
  Record<string, Int4WgmmaUse>
>;

/** A single split is a complete result: nothing is left to add up. */
function isWorthwhile(epilogue: GemmEpilogue, { splits }: { readonly splits: number }): boolean {
  return epilogue !== "partial-sums" || splits > 1;
}

/** Results are bf16 whatever type is asked for: matrices of logits are never INT4. */
function planInt4Gemm(
  { weight, bias }: GemmMatrix,
  rows: number,
  device: GemmDevice,
  { reader = "complete", operand = "activations" }: GemmUse,
): GemmPlan {
  expectOperand(weight, operand, "activations");
  if (device.isDeterministic === true) return { kernel: "int4-decode", operand, epilogue: "complete" };
  const special = bias === undefined ? EPILOGUES[reader] : undefined;
  const form = special && int4TileConfig(weight, rows, device, special);
  if (special !== undefined && form !== undefined && isWorthwhile(special, form)) {
    return { kernel: "int4-wgmma", form, operand, epilogue: special };
  }
  if (rows > INT4_MAX_ROWS) return { kernel: "int4-decode", operand, epilogue: "complete" };
  const complete = int4TileConfig(weight, rows, device, "complete");
  if (complete === undefined) return { kernel: "int4-skinny", operand, epilogue: "complete" };
  return { kernel: "int4-wgmma", form: complete, operand, epilogue: "complete" };
}

function int4TileConfig(
  { shape: [outputs = 0, inputs = 0], groupSize = 0 }: GemmMatrix["weight"],
  rows: number,
  device: GemmDevice,
  epilogue: keyof typeof INT4_USES,
): Int4WgmmaTileConfig | undefined {
  if (rows < MIN_WGMMA_ROWS) return undefined;
  return int4WgmmaTileConfig(device, rows, { outputs, inputs, groupSize }, INT4_USES[epilogue]);
}
