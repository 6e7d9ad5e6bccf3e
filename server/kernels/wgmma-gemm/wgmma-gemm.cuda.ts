/** Launches wgmma-gemm.cu: up to 128 rows times a bf16 or FP8 matrix, on devices with WGMMA. Source: PTX ISA, wgmma. */
import type { DevicePointer, KernelStream, TensorMap } from "../../src/device/cuda/kernel-stream.ts";
import { hasWgmma } from "../cuda/device-limits.ts";
import { ceilDiv, expectCount, i32, ptr } from "../cuda/launch-args.ts";
import { ACTIVATION_NUMBERS, type CudaActivation } from "../gated-mul/gated-mul.cuda.ts";
import { LINE_BYTES, planWgmmaGemm, type WgmmaTileConfig, wgmmaBlocks, wgmmaSharedBytes } from "./wgmma-plan.ts";

export type WgmmaWeightType = "bf16" | "e4m3";

export interface WgmmaGemmCudaArgs {
  /** Type of the matrix and of x. */
  readonly weightType: WgmmaWeightType;
  readonly x: DevicePointer; // [numRows, inputs]
  readonly weight: DevicePointer; // [outputs, inputs]; gated: [2 * outputs, inputs]
  /** Scales of codes: one f32 for each row of x and of the matrix. */
  readonly scales?: { readonly rows: DevicePointer; readonly columns: DevicePointer } | undefined;
  readonly bias?: DevicePointer | undefined; // bf16 [outputs]
  /** The first half of the matrix gives what is activated and multiplies what the second gives. */
  readonly gatedBy?: CudaActivation | undefined;
  /** bf16 [numRows, outputs]; of a form with several splits f32 [splits, numRows, outputs], parts of sums without scales. */
  readonly out: DevicePointer;
  readonly numRows: number;
  readonly outputs: number;
  readonly inputs: number;
}

/** Sizes of a GEMM that decide whether the kernel is written for it. */
export interface WgmmaGemmShape {
  readonly weightType: WgmmaWeightType;
  readonly numRows: number;
  /** Rows of the matrix. */
  readonly matrixRows: number;
  readonly inputs: number;
  readonly isGated?: boolean;
  /** The reader takes sums in parts and without scales. */
  readonly keepsPartials?: boolean;
}

const WEIGHT_BYTES: Readonly<Record<WgmmaWeightType, number>> = { bf16: 2, e4m3: 1 };
const known = new Map<string, WgmmaTileConfig | undefined>();

/** How the GEMM is spread over the device; undefined where the kernel does not serve. */
export function wgmmaTileConfig(
  { arch, numSms }: Pick<KernelStream, "arch" | "numSms">,
  { weightType, numRows, matrixRows, inputs, isGated = false, keepsPartials = false }: WgmmaGemmShape,
): WgmmaTileConfig | undefined {
  if (!hasWgmma(arch)) return undefined;
  const key = `${numSms} ${weightType} ${numRows} ${matrixRows} ${inputs} ${isGated} ${keepsPartials}`;
  if (!known.has(key)) {
    const rowBytes = inputs * WEIGHT_BYTES[weightType];
    known.set(key, planWgmmaGemm(numSms, { numRows, outputs: matrixRows, rowBytes, isGated, keepsPartials }));
  }
  return known.get(key);
}

export function launchWgmmaGemm(stream: KernelStream, args: WgmmaGemmCudaArgs, form: WgmmaTileConfig): void {
  const { weightType, numRows, outputs, inputs, scales, bias, gatedBy } = args;
  const { rows, groups, groupTiles, tileOutputs, splits, weightStages, rowStages } = form;
  expectCount("wgmmaGemm", "row", numRows);
  if (numRows > rows) throw new Error(`wgmmaGemm: expected at most ${rows} rows, got ${numRows}`);
  const matrixRows = gatedBy === undefined ? outputs : 2 * outputs;
  const kernel = stream.kernel({
    source: "wgmma-gemm/wgmma-gemm.cu",
    name: "wgmma_gemm",
    defines: {
      ROWS: rows,
      WARP_GROUPS: groups,
      GROUP_TILES: groupTiles,
      TILE_OUTPUTS: tileOutputs,
      SPLITS: splits,
      WEIGHT_STAGES: weightStages,
      ROW_STAGES: rowStages,
      ...(weightType === "e4m3" ? { WEIGHT_E4M3: 1 } : {}),
      ...(bias === undefined ? {} : { HAS_BIAS: 1 }),
      ...(gatedBy === undefined ? {} : { GATED: 1, ACTIVATION: ACTIVATION_NUMBERS[gatedBy] }),
    },
    usesProgrammaticLaunch: true,
  });
  const rowBytes = inputs * WEIGHT_BYTES[weightType];
  const weights: TensorMap = { address: args.weight, rowBytes, numRows: matrixRows, pieceRows: tileOutputs };
  const x: TensorMap = { address: args.x, rowBytes, numRows, pieceRows: rows };
  const numThreads = groups * WARP_GROUP_THREADS + 2 * 32;
  stream.launch(kernel, [wgmmaBlocks(matrixRows, form), 1, 1], [numThreads, 1, 1], wgmmaSharedBytes(form), [
    { table: weights },
    { table: x },
    ptr(scales?.rows),
    ptr(scales?.columns),
    ptr(bias),
    ptr(splits === 1 ? args.out : undefined),
    ptr(splits === 1 ? undefined : args.out),
    i32(numRows),
    i32(outputs),
    i32(ceilDiv(rowBytes / LINE_BYTES, splits)),
  ]);
}

const WARP_GROUP_THREADS = 128;
