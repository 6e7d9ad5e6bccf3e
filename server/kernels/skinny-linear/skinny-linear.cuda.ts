/**
 * Dense products for few rows on a GPU, at the speed at which weights are read: what a decode step of a small batch is
 * made of. The activation between the two products of a gated layer can be taken along.
 */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import { ceilDiv, expectCount, i32, ptr } from "../cuda/launch-args.ts";
import { ACTIVATION_NUMBERS, type CudaActivation } from "../gated-mul/gated-mul.cuda.ts";

export interface SkinnyLinearCudaArgs {
  readonly x: DevicePointer; // bf16 [numRows, inputs]
  readonly weight: DevicePointer; // [outputs, inputs]
  readonly weightType: "bf16" | "e4m3";
  /** Of e4m3: a number is its code times its scale; one for all, or one an output. */
  readonly scales?: { readonly pointer: DevicePointer; readonly per: "tensor" | "row" } | undefined;
  readonly bias?: DevicePointer | undefined; // bf16 [outputs]
  /** [numRows, outputs]; with `gated` half as wide. */
  readonly out: DevicePointer;
  readonly outType: "bf16" | "f32";
  /** The outputs are [gate | up], and what is stored is activation(gate) * up. */
  readonly gated?: CudaActivation | undefined;
  readonly numRows: number;
  readonly inputs: number;
  readonly outputs: number;
}

/** Beyond, the rows of x weigh as much as the weights. */
export const SKINNY_MAX_ROWS = 16;

const WARPS = 8;
/** From here on blocks of 32 outputs are enough to fill a device. */
const MANY_OUTPUTS = 16_384;

/** What a warp reads of a row of weights in one round. */
const CHUNK: Readonly<Record<SkinnyLinearCudaArgs["weightType"], number>> = { bf16: 64, e4m3: 128 };

/** Whether the kernel takes a product of this shape. */
export function isSkinny(
  weightType: SkinnyLinearCudaArgs["weightType"],
  numRows: number,
  inputs: number,
  outputs: number,
): boolean {
  return numRows <= SKINNY_MAX_ROWS && inputs % CHUNK[weightType] === 0 && outputs % 16 === 0;
}

export function launchSkinnyLinear(stream: KernelStream, args: SkinnyLinearCudaArgs): void {
  const { weightType, scales, outType, gated, numRows, inputs, outputs } = args;
  expectCount("skinnyLinear", "row", numRows);
  if (!isSkinny(weightType, numRows, inputs, outputs) || (gated !== undefined && outputs % 32 !== 0)) {
    throw new Error(
      `skinnyLinear: expected at most ${SKINNY_MAX_ROWS} rows, inputs in multiples of ${CHUNK[weightType]} and outputs of ${gated === undefined ? 16 : 32}, got ${numRows} rows of ${inputs} to ${outputs}`,
    );
  }
  if ((weightType === "e4m3") !== (scales !== undefined)) {
    throw new Error(`skinnyLinear: expected scales for e4m3 alone, got ${weightType}`);
  }
  const tiles = gated !== undefined || outputs >= MANY_OUTPUTS ? 2 : 1;
  const rowTiles = ceilDiv(numRows, 8);
  const kernel = stream.kernel({
    source: "skinny-linear/skinny-linear.cu",
    name: "skinny_linear",
    defines: {
      TILES: tiles,
      ROW_TILES: rowTiles,
      ACTIVATION: ACTIVATION_NUMBERS[gated ?? "silu"],
      ...(gated === undefined ? {} : { GATED: 1 }),
      ...(weightType === "e4m3" ? { WEIGHT_E4M3: 1 } : {}),
      ...(scales?.per === "row" ? { ROW_SCALES: 1 } : {}),
      ...(outType === "f32" ? { OUT_F32: 1 } : {}),
      ...(args.bias === undefined ? {} : { HAS_BIAS: 1 }),
    },
    waitsForPrevious: true,
  });
  stream.launch(kernel, [ceilDiv(outputs, 16 * tiles), 1, 1], [WARPS * 32, 1, 1], 0, [
    ptr(args.x),
    ptr(args.weight),
    ptr(scales?.pointer),
    ptr(args.bias),
    ptr(args.out),
    i32(numRows),
    i32(inputs),
    i32(outputs),
  ]);
}
