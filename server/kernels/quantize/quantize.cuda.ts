/**
 * Launches quantize.cu and scale-sums.cu: activations to 8-bit codes for a tensor-core GEMM, and its sums back.
 * Source: FP8 E4M3 (Micikevicius et al. 2022), SmoothQuant (Xiao et al. 2022).
 */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import {
  ceilDiv,
  ELEM_VEC,
  type ElemType,
  elemDefines,
  expectCount,
  expectWidth,
  i32,
  ptr,
  rowShape,
} from "../cuda/launch-args.ts";
import { type QuantizedOutput, quantizeDefines } from "../cuda/quantized-output.ts";

export interface QuantizeRowsCudaArgs {
  readonly type: ElemType;
  readonly x: DevicePointer; // [numRows, width]
  readonly out: DevicePointer; // [numRows, width] of codes
  readonly quantized: QuantizedOutput;
  /** The order of FP8 codes that GEMMs of experts take: rows of a multiple of 16. */
  readonly isInterleaved?: boolean;
  readonly numRows: number;
  readonly width: number;
}

export interface ScaleSumsCudaArgs {
  readonly type: ElemType;
  /** Sums of GEMMs of codes: as activations, or as i32. */
  readonly sums: DevicePointer; // [numRows, width]
  readonly sumType: "elem" | "i32";
  readonly rowScales?: DevicePointer | undefined; // f32 [numRows]
  readonly columnScales?: DevicePointer | undefined; // f32 [width]
  readonly out: DevicePointer; // [numRows, width]; may be `sums` where those are elements
  readonly numRows: number;
  readonly width: number;
}

const THREADS = 256;

export function launchQuantizeRows(stream: KernelStream, args: QuantizeRowsCudaArgs): void {
  const { type, quantized, numRows, width } = args;
  expectCount("quantizeRows", "row", numRows);
  const { threads, vectors } = rowShape("quantizeRows", width, type);
  if (args.isInterleaved === true && (type !== "bf16" || width % 16 !== 0 || quantized.codes !== "e4m3"))
    throw new Error(`quantizeRows: expected bf16 rows of a multiple of 16 to interleave, got ${type} of ${width}`);
  const kernel = stream.kernel({
    source: "quantize/quantize.cu",
    name: "quantize_rows",
    defines: {
      ...elemDefines(type),
      ...quantizeDefines(quantized),
      VECTORS: vectors,
      ...(args.isInterleaved === true ? { INTERLEAVED: 1 } : {}),
    },
    usesProgrammaticLaunch: true,
  });
  const pointers = [ptr(args.x), ptr(args.out), ptr(quantized.scales)];
  stream.launch(kernel, [numRows, 1, 1], [threads, 1, 1], 0, [...pointers, i32(width)]);
}

/** out[row][column] = sums[row][column] * rowScales[row] * columnScales[column] */
export function launchScaleSums(stream: KernelStream, args: ScaleSumsCudaArgs): void {
  const { type, sumType, numRows, width } = args;
  expectCount("scaleSums", "row", numRows);
  expectWidth("scaleSums", width, type);
  const kernel = stream.kernel({
    source: "quantize/scale-sums.cu",
    name: sumType === "i32" ? "scale_whole_sums" : "scale_sums",
    defines: elemDefines(type),
    usesProgrammaticLaunch: true,
  });
  stream.launch(kernel, [ceilDiv(width / ELEM_VEC[type], THREADS), numRows, 1], [THREADS, 1, 1], 0, [
    ptr(args.sums),
    ptr(args.rowScales),
    ptr(args.columnScales),
    ptr(args.out),
    i32(width),
  ]);
}
