/**
 * Launches lora.cu: y += b . (a . x) for the rows that carry adapters, in two launches for all adapters of a step.
 * Defines the memory layout that describes an adapter's matrices; knows no layer and no adapter. Source: LoRA (Hu et
 * al. 2021), SGMV of Punica (Chen et al. 2023).
 */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import {
  ceilDiv,
  type ElemType,
  elemDefines,
  expectCount,
  expectWidth,
  i32,
  ptr,
  roundUp,
} from "../cuda/launch-args.ts";
import type { LoraTiles } from "./lora-tiles.ts";

/** Parts of a linear layer, at most. */
export const LORA_PARTS = 4;
export const LORA_PART_BYTES = 32;
/** Ranks are padded with zeros to this multiple. */
export const LORA_RANK_STEP = 16;

/** A part of a linear layer that an adapter changes. */
export interface LoraPartCuda {
  readonly a: DevicePointer; // [rank, inputs]
  readonly b: DevicePointer; // [outputs, rank]
  /** A multiple of `LORA_RANK_STEP`. */
  readonly rank: number;
  readonly column: number;
  readonly outputs: number;
}

/** As the kernels read it. */
export function writeLoraPart(view: DataView, at: number, { a, b, rank, column, outputs }: LoraPartCuda): void {
  view.setBigUint64(at, a, true);
  view.setBigUint64(at + 8, b, true);
  view.setInt32(at + 16, rank, true);
  view.setInt32(at + 20, column, true);
  view.setInt32(at + 24, outputs, true);
}

export interface LoraCudaArgs extends LoraTiles {
  readonly type: ElemType;
  /** u64 [numTiles]: where the parts of the tile's adapter begin; 0: none. */
  readonly adapters: DevicePointer;
  readonly tileRows: DevicePointer; // i32 [numTiles, rowsPerTile]; -1: none
  /** In front of the parts of this linear layer, in every adapter. */
  readonly firstPart: number;
  readonly x: DevicePointer; // [numRows, inputs]
  /** f32 [numRows], where `x` holds codes. */
  readonly xScales?: DevicePointer | undefined;
  readonly y: DevicePointer; // [numRows, width]
  /** Scales of the rows and columns of `y`, which are still to be applied. */
  readonly sumScales?: { readonly rows: DevicePointer; readonly columns: DevicePointer } | undefined;
  readonly inputs: number;
  readonly width: number;
  readonly numRows: number;
  /** Largest rank of the step's adapters, a multiple of `LORA_RANK_STEP`. */
  readonly maxRank: number;
  /** `loraLowBytes` of it. */
  readonly low: DevicePointer;
  /** Whatever the number of rows. */
  readonly inOneSum?: boolean | undefined;
}

const SHRINK_THREADS = 256;
const EXPAND_THREADS = 128;
const BLOCK_COLUMNS = 128;
/** Most of the tiles of a recorded step are empty: blocks for each of them would take longer than the work. */
const MAX_TURNS = 16;
const PLAIN_WARPS = 8;
const PLAIN_OUTPUTS = 256;
const MAX_SPLITS = 8;
/** Rows whose products with `a` there is room for, parts of the inputs counted by themselves. */
const MIN_LOW_ROWS = 1024;

/** Rank of a step with adapters of up to that rank: powers of two, so that few graphs serve all. */
export function loraStepRank(rank: number): number {
  return 2 ** Math.ceil(Math.log2(roundUp(rank, LORA_RANK_STEP)));
}

/** Between the two launches, for steps of up to `maxRows`. */
export function loraLowBytes(maxRows: number, maxRank: number): number {
  return 4 * Math.max(MIN_LOW_ROWS, maxRows) * LORA_PARTS * loraStepRank(maxRank);
}

/** Few rows are split along their inputs, so that enough blocks read the matrices. */
function splitsOf(numRows: number): number {
  let splits = MAX_SPLITS;
  while (splits > 1 && splits * numRows > MIN_LOW_ROWS / 2) splits /= 2;
  return splits;
}

export function launchLora(stream: KernelStream, args: LoraCudaArgs): void {
  const { type, xScales, sumScales, inputs, width, numRows, numTiles, maxRank, rowsPerTile } = args;
  expectCount("lora", "tile", numTiles);
  expectCount("lora", "row", numRows);
  if (maxRank < LORA_RANK_STEP || maxRank % LORA_RANK_STEP !== 0) {
    throw new Error(`lora: expected ranks of a multiple of ${LORA_RANK_STEP}, got ${maxRank}`);
  }
  if (type === "f32") {
    if (xScales !== undefined || sumScales !== undefined) throw new Error("lora: codes are for rows of bf16");
    launchPlain(stream, args);
    return;
  }
  expectWidth("lora", inputs, type);
  const splits = args.inOneSum === true ? 1 : splitsOf(numRows);
  const defines = { ROWS: rowsPerTile, ...(xScales === undefined ? {} : { X_E4M3: 1 }) };
  const source = "lora/lora.cu";
  const shrink = stream.kernel({ source, name: "lora_shrink", defines, usesProgrammaticLaunch: true });
  const tiles = [ptr(args.adapters), ptr(args.tileRows)];
  const rows = [i32(numRows), i32(maxRank), i32(splits)];
  const first = [i32(numTiles), i32(args.firstPart)];
  const turns = Math.min(numTiles, rowsPerTile === 8 ? MAX_TURNS : numTiles);
  const pointers = [ptr(args.x), ptr(xScales), ptr(args.low)];
  stream.launch(shrink, [maxRank / LORA_RANK_STEP, LORA_PARTS * splits, turns], [SHRINK_THREADS, 1, 1], 0, [
    ...[...tiles, ...pointers, ...first],
    i32(inputs),
    ...rows,
  ]);
  const expand = stream.kernel({
    source,
    name: "lora_expand",
    defines: { ROWS: rowsPerTile, ...(sumScales === undefined ? {} : { SUM_SCALES: 1 }) },
    usesProgrammaticLaunch: true,
  });
  const scales = [ptr(sumScales?.rows), ptr(sumScales?.columns)];
  stream.launch(expand, [ceilDiv(width, BLOCK_COLUMNS), 1, turns], [EXPAND_THREADS, 1, 1], 0, [
    ...[...tiles, ptr(args.low), ptr(args.y), ...scales, ...first],
    i32(width),
    ...rows,
  ]);
}

function launchPlain(stream: KernelStream, args: LoraCudaArgs): void {
  const { type, inputs, width, numRows, numTiles, maxRank, rowsPerTile } = args;
  const shared = { source: "lora/plain-lora.cu", defines: elemDefines(type), usesProgrammaticLaunch: true };
  const block = [PLAIN_WARPS * 32, 1, 1] as const;
  const tiles = [ptr(args.adapters), ptr(args.tileRows)];
  const sizes = [i32(numRows), i32(maxRank), i32(rowsPerTile)];
  const first = i32(args.firstPart);
  const shrink = stream.kernel({ ...shared, name: "plain_lora_shrink" });
  const low = [ptr(args.x), ptr(args.low), first, i32(inputs)];
  stream.launch(shrink, [ceilDiv(maxRank, PLAIN_WARPS), LORA_PARTS, numTiles], block, 0, [...tiles, ...low, ...sizes]);
  const expand = stream.kernel({ ...shared, name: "plain_lora_expand" });
  const sum = [ptr(args.low), ptr(args.y), first, i32(width)];
  stream.launch(expand, [ceilDiv(width, PLAIN_OUTPUTS), LORA_PARTS, numTiles], block, 0, [...tiles, ...sum, ...sizes]);
}
