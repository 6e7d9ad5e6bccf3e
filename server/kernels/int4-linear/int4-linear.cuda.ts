/**
 * Launches INT4 GEMMs on a GPU: straight from the codes for few rows, decoded to bf16 for many. Source: Marlin (Frantar
 * et al. 2024).
 */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import { sharedBytesPerBlock } from "../cuda/device-limits.ts";
import type { Defines } from "../cuda/launch-args.ts";
import { ceilDiv, expectCount, i32, ptr } from "../cuda/launch-args.ts";
import { type Int4WorkspaceBytes, int4WgmmaWorkspaceBytes, planInt4Wgmma } from "./int4-wgmma-plan.ts";
import { expectInt4Shape, INT4_BLOCK } from "./pack-int4.ts";

/** Weights as packInt4() orders them. */
export interface Int4CudaWeight {
  readonly codes: DevicePointer;
  readonly scales: DevicePointer;
  readonly zeros?: DevicePointer | undefined;
  readonly outputs: number;
  readonly inputs: number;
  readonly groupSize: number;
}

export interface Int4LinearCudaArgs {
  readonly x: DevicePointer; // bf16 [numRows, inputs]
  readonly weight: Int4CudaWeight;
  readonly bias?: DevicePointer | undefined; // bf16 [outputs]
  readonly out: DevicePointer; // bf16 [numRows, outputs]
  readonly numRows: number;
  /** Sizes: `int4WorkspaceBytes`. */
  readonly counters: DevicePointer;
  readonly partials: DevicePointer;
}

/** From more rows on, decoding the weights and a dense GEMM take less time. */
export const INT4_MAX_ROWS = 64;

/** Inputs that a block takes in one turn. */
const SEGMENT = 1024;
/** Inputs that a block decodes to bf16. */
const DECODE_INPUTS = 512;
const THREADS = 256;
const MAX_ROW_TILES = 4;
const X_ROW_BYTES = SEGMENT * 2 + 16;
const MAX_SPLITS = 16;
/** Cost of joining one more split, in turns of a block. */
const SPLIT_COST = 0.15;

/** Device properties that the plan depends on; a stream has them. */
export type Int4Device = Pick<KernelStream, "numSms" | "arch">;

export interface Int4Plan {
  readonly rowTiles: number;
  readonly numRowBlocks: number;
  readonly numSplits: number;
}

/** Splits the inputs so that the rounds of blocks, times what each reads, are fewest. */
export function planInt4(device: Int4Device, numRows: number, outputs: number, inputs: number): Int4Plan {
  const { numSms, arch } = device;
  const most = sharedBytesPerBlock(arch) < sharedBytesOf(MAX_ROW_TILES) ? 2 : MAX_ROW_TILES;
  const rowTiles = numRows <= 8 ? 1 : numRows <= 16 ? 2 : most;
  const numRowBlocks = ceilDiv(numRows, 8 * rowTiles);
  const numPlaces = numSms * (rowTiles === 1 ? 2 : 1);
  const numBlocks = (outputs / INT4_BLOCK) * numRowBlocks;
  const numSegments = ceilDiv(inputs, SEGMENT);
  let best = { numSplits: 1, cost: Number.POSITIVE_INFINITY };
  for (let wanted = 1; wanted <= Math.min(MAX_SPLITS, numSegments); wanted++) {
    const perSplit = ceilDiv(numSegments, wanted);
    const numSplits = ceilDiv(numSegments, perSplit);
    // Half a turn more stands for what a block costs before it reads.
    const cost = ceilDiv(numBlocks * numSplits, numPlaces) * (perSplit + 0.5) + SPLIT_COST * numSplits;
    if (cost < best.cost) best = { numSplits, cost };
  }
  return { rowTiles, numRowBlocks, numSplits: best.numSplits };
}

const NO_WORKSPACE: Int4WorkspaceBytes = { counters: 0, partials: 0 };

/** For either kernel. */
export function int4WorkspaceBytes(
  device: Int4Device,
  maxRows: number,
  outputs: number,
  inputs: number,
): Int4WorkspaceBytes {
  let partials = 0;
  let counters = 0;
  for (let numRows = 1; numRows <= maxRows; numRows++) {
    const { numSplits, numRowBlocks } = planInt4(device, numRows, outputs, inputs);
    const form = planInt4Wgmma(device.numSms, { numRows, outputs, inputs, use: "whole" });
    const ofGroups = form === undefined ? NO_WORKSPACE : int4WgmmaWorkspaceBytes(outputs, form, numRows);
    partials = Math.max(partials, numSplits * numRows * outputs * 4, ofGroups.partials);
    counters = Math.max(counters, (outputs / INT4_BLOCK) * numRowBlocks * 4, ofGroups.counters);
  }
  return { counters, partials };
}

export function launchInt4Linear(stream: KernelStream, args: Int4LinearCudaArgs): void {
  const { weight, bias, numRows } = args;
  const { outputs, inputs, groupSize } = weight;
  expectCount("int4Linear", "row", numRows);
  expectInt4Shape(outputs, inputs, groupSize);
  const { rowTiles, numRowBlocks, numSplits } = planInt4(stream, numRows, outputs, inputs);
  const kernel = stream.kernel({
    source: "int4-linear/int4-linear.cu",
    name: "int4_linear",
    defines: { ...weightDefines(weight, rowTiles), ...(bias === undefined ? {} : { HAS_BIAS: 1 }) },
    usesProgrammaticLaunch: true,
  });
  const grid = [outputs / INT4_BLOCK, numSplits, numRowBlocks] as const;
  stream.launch(kernel, grid, [THREADS, 1, 1], sharedBytesOf(rowTiles), [
    ptr(args.x),
    ptr(weight.codes),
    ptr(weight.scales),
    ptr(weight.zeros),
    ptr(bias),
    ptr(args.out),
    ptr(args.partials),
    ptr(args.counters),
    i32(numRows),
    i32(inputs),
    i32(outputs),
  ]);
}

/** `out`: bf16 [outputs, inputs] */
export function launchInt4Decode(stream: KernelStream, weight: Int4CudaWeight, out: DevicePointer): void {
  const { outputs, inputs, groupSize } = weight;
  expectInt4Shape(outputs, inputs, groupSize);
  const kernel = stream.kernel({
    source: "int4-linear/int4-linear.cu",
    name: "int4_decode",
    defines: weightDefines(weight, 1),
    usesProgrammaticLaunch: true,
  });
  const grid = [ceilDiv(inputs, DECODE_INPUTS), outputs / INT4_BLOCK, 1] as const;
  const pointers = [ptr(weight.codes), ptr(weight.scales), ptr(weight.zeros), ptr(out)];
  stream.launch(kernel, grid, [THREADS, 1, 1], 0, [...pointers, i32(inputs), i32(outputs)]);
}

/** Two turns of the rows of x. */
function sharedBytesOf(rowTiles: number): number {
  return 2 * 8 * rowTiles * X_ROW_BYTES;
}

function weightDefines({ groupSize, zeros }: Int4CudaWeight, rowTiles: number): Defines {
  return { GROUP: groupSize, ROW_TILES: rowTiles, ...(zeros === undefined ? {} : { HAS_ZEROS: 1 }) };
}
