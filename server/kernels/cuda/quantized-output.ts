/**
 * Result format of a kernel: activations, or 8-bit codes with a scale per row or one for all; and the deferred epilogue
 * of a GEMM. Source: FP8 E4M3 (Micikevicius et al. 2022), split-K of CUTLASS's efficient GEMM guide.
 */
import type { DevicePointer } from "../../src/device/cuda/kernel-stream.ts";
import type { Defines } from "./launch-args.ts";

export type OutputCodes = "e4m3" | "i8";

export interface QuantizedOutput {
  readonly codes: OutputCodes;
  /** One f32 per row is written here ("row"), or one f32 for all rows is read ("tensor"): a number is code * scale. */
  readonly scales: DevicePointer;
  readonly per: "row" | "tensor";
}

const NO_DEFINES: Defines = {};

export function quantizeDefines(output: QuantizedOutput | undefined): Defines {
  if (output === undefined) return NO_DEFINES;
  const codes = output.codes === "e4m3" ? { QUANTIZE_E4M3: 1 } : { QUANTIZE_I8: 1 };
  return output.per === "tensor" ? { ...codes, STATIC_SCALE: 1 } : codes;
}

/** Scales that the reader of a GEMM of codes must still apply to rows and columns. */
export interface SumScales {
  readonly rows: DevicePointer; // f32, one a row
  readonly columns: DevicePointer; // f32, one a column
}

/** Split-K partial sums: f32 [count, rows, columns]. */
export interface SplitKPartials {
  readonly address: DevicePointer;
  readonly count: number;
}

/** The part of a GEMM's epilogue that its reader does. */
export interface DeferredEpilogue {
  readonly scales?: SumScales | undefined;
  readonly parts?: SplitKPartials | undefined;
}

const SUM_DEFINES: Defines = { SUM_SCALES: 1 };

export function sumDefines(scales: SumScales | undefined, parts?: SplitKPartials): Defines {
  const ofScales = scales === undefined ? NO_DEFINES : SUM_DEFINES;
  return parts === undefined ? ofScales : { ...ofScales, SPLIT_K_PARTIALS: parts.count };
}
