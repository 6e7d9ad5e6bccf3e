/**
 * Launches gated-mul.cu and gated-mul-rows.cu: act(gate) * up over rows of [gate | up], stored as activations or as
 * codes for the next GEMM. Source: SwiGLU and GeGLU (Shazeer 2020).
 */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import {
  ceilDiv,
  type Defines,
  ELEM_VEC,
  type ElemType,
  elemDefines,
  expectCount,
  expectWidth,
  i32,
  ptr,
  rowShape,
} from "../cuda/launch-args.ts";
import { type QuantizedOutput, quantizeDefines, type SumScales, sumDefines } from "../cuda/quantized-output.ts";

export type CudaActivation = "silu" | "gelu-tanh" | "gelu-erf" | "relu" | "relu2";

/** Activation of a gate and its up row; the clamped SwiGLU of gpt-oss has no form without a gate. */
export type CudaGatedActivation = CudaActivation | { readonly alpha: number; readonly limit: number };

/** Numbers that activation.cuh knows them by. */
export const ACTIVATION_NUMBERS: Readonly<Record<CudaActivation, number>> = {
  silu: 0,
  "gelu-tanh": 1,
  "gelu-erf": 2,
  relu: 3,
  relu2: 4,
};

const CLAMPED_SWIGLU = 5;

export function gatedDefines(activation: CudaGatedActivation): Defines {
  if (typeof activation === "string") return { ACTIVATION: ACTIVATION_NUMBERS[activation] };
  const literal = (value: number): string => `${Math.fround(value).toExponential()}f`;
  const { alpha, limit } = activation;
  return { ACTIVATION: CLAMPED_SWIGLU, SWIGLU_ALPHA: literal(alpha), SWIGLU_LIMIT: literal(limit) };
}

export interface GatedMulCudaArgs {
  readonly type: ElemType;
  readonly activation: CudaGatedActivation;
  readonly gateUp: DevicePointer; // [numRows, 2 * width]
  /** Scales of the rows and columns of `gateUp`, if it holds unscaled sums of codes. */
  readonly sumScales?: SumScales | undefined;
  readonly out: DevicePointer; // [numRows, width], elements or codes
  readonly quantized?: QuantizedOutput | undefined;
  readonly numRows: number;
  readonly width: number;
}

const THREADS = 256;

export function launchGatedMul(stream: KernelStream, args: GatedMulCudaArgs): void {
  expectCount("gatedMul", "row", args.numRows);
  expectWidth("gatedMul", args.width, args.type);
  if (args.quantized?.per === "row") launchRows(stream, args);
  else launchFlat(stream, args);
}

function launchFlat(stream: KernelStream, args: GatedMulCudaArgs): void {
  const { type, activation, gateUp, out, quantized, sumScales, numRows, width } = args;
  const kernel = stream.kernel({
    source: "gated-mul/gated-mul.cu",
    name: "gated_mul",
    defines: {
      ...elemDefines(type),
      ...quantizeDefines(quantized),
      ...sumDefines(sumScales),
      ...gatedDefines(activation),
    },
    usesProgrammaticLaunch: true,
  });
  const numBlocks = ceilDiv(width / ELEM_VEC[type], THREADS);
  stream.launch(kernel, [numBlocks, numRows, 1], [THREADS, 1, 1], 0, [
    ptr(gateUp),
    ptr(out),
    ptr(quantized?.scales),
    ptr(sumScales?.rows),
    ptr(sumScales?.columns),
    i32(width),
  ]);
}

/** The scale of a row needs all of it at once. */
function launchRows(stream: KernelStream, args: GatedMulCudaArgs): void {
  const { type, activation, gateUp, out, quantized, sumScales, numRows, width } = args;
  const { threads, vectors } = rowShape("gatedMul", width, type);
  const kernel = stream.kernel({
    source: "gated-mul/gated-mul-rows.cu",
    name: "gated_mul_rows",
    defines: {
      ...elemDefines(type),
      ...quantizeDefines(quantized),
      ...sumDefines(sumScales),
      ...gatedDefines(activation),
      VECTORS: vectors,
    },
    usesProgrammaticLaunch: true,
  });
  stream.launch(kernel, [numRows, 1, 1], [threads, 1, 1], 0, [
    ptr(gateUp),
    ptr(out),
    ptr(quantized?.scales),
    ptr(sumScales?.rows),
    ptr(sumScales?.columns),
    i32(width),
  ]);
}
