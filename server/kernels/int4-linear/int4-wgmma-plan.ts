/**
 * Tile configuration and splits of an INT4 WGMMA GEMM over the SMs of a GPU. Pure; it depends on sizes alone. Source:
 * int4-wgmma.cu; split-K of CUTLASS's efficient GEMM guide.
 */
import { ceilDiv } from "../cuda/launch-args.ts";
import { INT4_BLOCK } from "./pack-int4.ts";

export interface Int4WgmmaTileConfig {
  /** Rows of x as the matrix units take them. */
  readonly rows: number;
  readonly groups: number;
  readonly groupTiles: number;
  /** Blocks that share the inputs of a tile. */
  readonly splits: number;
  readonly weightStages: number;
  readonly rowStages: number;
}

export interface Int4WorkspaceBytes {
  /** i32, zeros before the first launch; each launch leaves zeros. */
  readonly counters: number;
  readonly partials: number;
}

/** Use of the sums: added up, kept as split-K partial sums for the reader, or gated. */
export type Int4WgmmaUse = "whole" | "parts" | "gated";

export interface Int4WgmmaShape {
  readonly numRows: number;
  readonly outputs: number;
  readonly inputs: number;
  readonly use: Int4WgmmaUse;
}

/** Inputs that a block takes at a time. */
export const INT4_CHUNK = 128;
/** A tile's codes and scales in shared memory. */
const TILE_BYTES = (INT4_BLOCK * INT4_CHUNK) / 2 + 256;
const RING_BYTES = 200 * 1024;
const MAX_WEIGHT_STAGES = 32;
const ROW_STAGES = 4;
const ROW_STEPS: readonly number[] = [16, 32, 64];
/** Warp groups and tiles of each, as registers hold them, by rows. */
const SPREADS: Readonly<Record<number, readonly (readonly [groups: number, groupTiles: number])[]>> = {
  16: [
    [4, 1],
    [3, 1],
    [2, 1],
    [3, 2],
    [2, 2],
  ],
  32: [
    [4, 1],
    [3, 1],
    [2, 1],
    [3, 2],
    [2, 2],
  ],
  64: [
    [3, 1],
    [2, 1],
    [2, 2],
  ],
};
/** More would cost the reader that adds them more than they gain. */
const SPLITS: readonly number[] = [1, 2, 4];
/** Start-up cost of a block, and cost of adding the sums of other blocks, in bytes read. */
const BLOCK_COST = 24 * 1024;
const JOIN_COST = 48 * 1024;
/** Rows of x come from the L2 cache. */
const ROW_COST = 0.6;

/** The form that takes least, in so many rounds of blocks; undefined where none is written for the shape. */
export function planInt4Wgmma(numSms: number, shape: Int4WgmmaShape): Int4WgmmaTileConfig | undefined {
  const { numRows, outputs, inputs, use } = shape;
  const rows = ROW_STEPS.find((step) => step >= numRows);
  const outputStep = use === "gated" ? 2 * INT4_BLOCK : INT4_BLOCK;
  if (rows === undefined || inputs % INT4_CHUNK !== 0 || outputs % outputStep !== 0) return undefined;
  let best: { readonly form: Int4WgmmaTileConfig; readonly cost: number } | undefined;
  for (const [groups, groupTiles] of SPREADS[rows] ?? []) {
    for (const splits of SPLITS) {
      const form = { rows, groups, groupTiles, splits, ...stagesOf(rows, groups * groupTiles) };
      if (!isPossible(form, shape)) continue;
      const cost = costOf(numSms, shape, form);
      if (best === undefined || cost < best.cost) best = { form, cost };
    }
  }
  return best?.form;
}

/** Each tile has as many of the stages of weights. */
function stagesOf(rows: number, tiles: number): Pick<Int4WgmmaTileConfig, "weightStages" | "rowStages"> {
  const rest = RING_BYTES - ROW_STAGES * rowSlotBytes(rows);
  const most = Math.min(MAX_WEIGHT_STAGES, Math.floor(rest / TILE_BYTES));
  return { rowStages: ROW_STAGES, weightStages: most - (most % tiles) };
}

function rowSlotBytes(rows: number): number {
  return 2 * INT4_CHUNK * rows;
}

function isPossible({ groups, groupTiles, splits }: Int4WgmmaTileConfig, { use }: Int4WgmmaShape): boolean {
  return use !== "gated" || (splits === 1 && (groups * groupTiles) % 2 === 0);
}

/** In bytes that one multiprocessor reads. */
function costOf(numSms: number, { outputs, inputs, use }: Int4WgmmaShape, form: Int4WgmmaTileConfig): number {
  const { rows, groups, groupTiles, splits } = form;
  const tiles = groups * groupTiles;
  const chunks = ceilDiv(inputs / INT4_CHUNK, splits);
  const partBytes = splits === 1 ? 0 : 2 * tiles * INT4_BLOCK * rows * 4 * ROW_COST + (use === "parts" ? 0 : JOIN_COST);
  const blockCost = chunks * (tiles * TILE_BYTES + ROW_COST * rowSlotBytes(rows)) + partBytes + BLOCK_COST;
  return ceilDiv(int4WgmmaBlocks(outputs, form), numSms) * blockCost;
}

export function int4WgmmaBlocks(outputs: number, { groups, groupTiles, splits }: Int4WgmmaTileConfig): number {
  return ceilDiv(outputs / INT4_BLOCK, groups * groupTiles) * splits;
}

/** Bytes of dynamic shared memory, with the padding for alignment to 1024. */
export function int4WgmmaSharedBytes({
  rows,
  groups,
  groupTiles,
  weightStages,
  rowStages,
}: Int4WgmmaTileConfig): number {
  const ring = rowStages * rowSlotBytes(rows) + weightStages * TILE_BYTES;
  const joined = 4 * rows * (groups * groupTiles * INT4_BLOCK + 4);
  return Math.max(ring, joined) + 1024;
}

export function int4WgmmaWorkspaceBytes(
  outputs: number,
  form: Int4WgmmaTileConfig,
  numRows: number,
): Int4WorkspaceBytes {
  if (form.splits === 1) return { counters: 0, partials: 0 };
  const { splits } = form;
  return { counters: (4 * int4WgmmaBlocks(outputs, form)) / splits, partials: 4 * splits * numRows * outputs };
}
