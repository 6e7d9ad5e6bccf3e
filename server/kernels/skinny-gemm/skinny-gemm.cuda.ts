/**
 * Launches skinny-gemm.cu: few rows times a bf16 or FP8 matrix, one pass over the weights, rows not quantized. Source:
 * skinny-gemm.cu.
 */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import { ceilDiv, type ElemType, expectCount, i32, ptr } from "../cuda/launch-args.ts";

export type SkinnyWeightType = "bf16" | "e4m3";

export interface SkinnyGemmCudaArgs {
  readonly x: DevicePointer; // bf16 [numRows, inputs]
  readonly weight: DevicePointer; // [outputs, inputs]
  readonly weightType: SkinnyWeightType;
  /** f32 [outputs]; of codes only. */
  readonly scales?: DevicePointer | undefined;
  readonly bias?: DevicePointer | undefined; // [outputs] of `outputType`
  readonly out: DevicePointer; // [numRows, outputs]
  readonly outputType: ElemType;
  readonly numRows: number;
  readonly outputs: number;
  readonly inputs: number;
}

/** From more rows on, a dense GEMM takes less time. */
export const SKINNY_MAX_ROWS: Readonly<Record<SkinnyWeightType, number>> = { bf16: 16, e4m3: 16 };

const THREADS = 256;
/** Inputs that a warp takes at a time. */
const CHUNKS: Readonly<Record<SkinnyWeightType, number>> = { bf16: 64, e4m3: 128 };
const TILE_OUTPUTS = 16;
const TILE_ROWS = 8;
/** Bytes of a weight tile that a warp copies at a time. */
const STAGE_TILE_BYTES = 2048;
/** Rows from which on reading them again for each block of outputs costs more than fewer blocks do. */
const MANY_ROWS = 5;

/** Whether the kernel is written for matrices of this shape. */
export function isSkinnyShape(type: SkinnyWeightType, outputs: number, inputs: number): boolean {
  return outputs % TILE_OUTPUTS === 0 && inputs % CHUNKS[type] === 0 && inputs > 0;
}

export function launchSkinnyGemm(stream: KernelStream, args: SkinnyGemmCudaArgs): void {
  const { weightType, outputType, numRows, outputs, inputs } = args;
  expectCount("skinnyGemm", "row", numRows);
  if (!isSkinnyShape(weightType, outputs, inputs)) {
    throw new Error(
      `skinnyGemm: expected outputs of a multiple of ${TILE_OUTPUTS} and inputs of ${CHUNKS[weightType]}, ` +
        `got [${outputs}, ${inputs}] of ${weightType}`,
    );
  }
  const { tiles, rowTiles } = planSkinnyGemm(stream.numSms, numRows, outputs);
  const numBlocks = (outputs / (tiles * TILE_OUTPUTS)) * ceilDiv(numRows, rowTiles * TILE_ROWS);
  const { stages, blocksPerSm } = formOf(weightType, tiles, rowTiles, numBlocks <= 2 * stream.numSms);
  const kernel = stream.kernel({
    source: "skinny-gemm/skinny-gemm.cu",
    name: "skinny_gemm",
    defines: {
      TILES: tiles,
      ROW_TILES: rowTiles,
      STAGES: stages,
      BLOCKS_PER_SM: blocksPerSm,
      ...(weightType === "e4m3" ? { WEIGHT_E4M3: 1 } : {}),
      ...(outputType === "f32" ? { OUT_F32: 1 } : {}),
      ...(args.bias === undefined ? {} : { HAS_BIAS: 1 }),
    },
    usesProgrammaticLaunch: true,
  });
  const grid = [outputs / (tiles * TILE_OUTPUTS), ceilDiv(numRows, rowTiles * TILE_ROWS), 1] as const;
  stream.launch(kernel, grid, [THREADS, 1, 1], (THREADS / 32) * stages * tiles * STAGE_TILE_BYTES, [
    ptr(args.x),
    ptr(args.weight),
    ptr(args.scales),
    ptr(args.bias),
    ptr(args.out),
    i32(numRows),
    i32(outputs),
    i32(inputs),
  ]);
}

/**
 * How far ahead weights are copied, and what the registers of a thread leave room for. Few blocks take more shared memory:
 * with room for three on a multiprocessor, some would get three and others none.
 */
function formOf(
  type: SkinnyWeightType,
  tiles: 1 | 2,
  rowTiles: 1 | 2,
  isFew: boolean,
): { readonly stages: number; readonly blocksPerSm: number } {
  if (tiles === 2) return { stages: 3, blocksPerSm: 2 };
  if (isFew) return { stages: 5, blocksPerSm: 2 };
  return { stages: 4, blocksPerSm: type === "e4m3" && rowTiles === 2 ? 2 : 3 };
}

/** Two tiles of outputs a block where enough blocks are left to fill the device. */
export function planSkinnyGemm(
  numSms: number,
  numRows: number,
  outputs: number,
): { readonly tiles: 1 | 2; readonly rowTiles: 1 | 2 } {
  const isWide = outputs % (2 * TILE_OUTPUTS) === 0 && outputs / (2 * TILE_OUTPUTS) >= 2 * numSms;
  return { tiles: numRows >= MANY_ROWS && isWide ? 2 : 1, rowTiles: numRows > TILE_ROWS ? 2 : 1 };
}
