/**
 * Tile configuration and splits of a WGMMA GEMM over the SMs of a GPU. Pure; it depends on sizes alone. Source:
 * wgmma-gemm.cu; split-K of CUTLASS's efficient GEMM guide.
 */
import { ceilDiv } from "../cuda/launch-args.ts";

export interface WgmmaTileConfig {
  /** Rows of x as the matrix units take them. */
  readonly rows: number;
  readonly groups: number;
  readonly groupTiles: number;
  readonly tileOutputs: number;
  /** Blocks that share the inputs of a tile. */
  readonly splits: number;
  readonly weightStages: number;
  readonly rowStages: number;
}

export interface WgmmaShape {
  readonly numRows: number;
  /** Rows of the matrix. */
  readonly outputs: number;
  /** Bytes of a row of the matrix. */
  readonly rowBytes: number;
  /** Half of the outputs multiply the other half. */
  readonly isGated: boolean;
  /** The reader takes sums in parts: splits may be more than one. */
  readonly keepsPartials: boolean;
}

/** Bytes of a row that are copied at a time. */
export const LINE_BYTES = 128;
const SLOT_BYTES = 64 * LINE_BYTES;
/** Leaves the small kernels beside it some of a multiprocessor's 228 KiB. */
const RING_BYTES = 204 * 1024;
const MAX_ROWS = 128;
const ROW_STEPS: readonly number[] = [16, 32, 64, 96, MAX_ROWS];
/** More gain nothing, and cost the reader. */
const MAX_PARTS = 2;
const ROOM_PARTS = 4;
/** Per block: warp groups, tiles of each, outputs of a tile; and blocks that share the inputs. */
const SPREADS: readonly Pick<WgmmaTileConfig, "groups" | "groupTiles" | "tileOutputs" | "splits">[] = [
  { groups: 1, groupTiles: 1 },
  { groups: 2, groupTiles: 1 },
  { groups: 3, groupTiles: 1 },
  { groups: 2, groupTiles: 2 },
].flatMap((tiles) =>
  [64, 56, 48, 32].flatMap((tileOutputs) => [1, MAX_PARTS].map((splits) => ({ ...tiles, tileOutputs, splits }))),
);
/** Rows of x come from the L2 cache, whose answers take as long however few weights go with them. */
const ROW_STAGES = { ofFewTiles: 12, ofMany: 6 } as const;
const FEW_TILES = 2;
/** More would leave too few stages to the weights. */
const ROW_RING_BYTES = 96 * 1024;

/** The form that reads least, in so many rounds of blocks; undefined where none is written for the shape. */
export function planWgmmaGemm(numSms: number, shape: WgmmaShape): WgmmaTileConfig | undefined {
  const rows = ROW_STEPS.find((step) => step >= shape.numRows);
  const { outputs, rowBytes, isGated } = shape;
  if (rows === undefined || rowBytes % LINE_BYTES !== 0 || outputs % (isGated ? 16 : 8) !== 0) return undefined;
  let best: { readonly form: WgmmaTileConfig; readonly cost: number } | undefined;
  for (const spread of SPREADS) {
    const form = {
      ...spread,
      rows,
      ...stagesOf(rows, rowBytes / LINE_BYTES / spread.splits, spread.groups * spread.groupTiles),
    };
    const cost = costOf(numSms, shape, form);
    if (cost !== undefined && (best === undefined || cost < best.cost)) best = { form, cost };
  }
  return best?.form;
}

function stagesOf(rows: number, chunks: number, tiles: number): Pick<WgmmaTileConfig, "weightStages" | "rowStages"> {
  const most = Math.min(
    tiles <= FEW_TILES ? ROW_STAGES.ofFewTiles : ROW_STAGES.ofMany,
    ROW_RING_BYTES / (rows * LINE_BYTES),
  );
  const rowStages = Math.max(2, Math.min(chunks, Math.floor(most)));
  return { rowStages, weightStages: Math.floor((RING_BYTES - rowStages * rows * LINE_BYTES) / SLOT_BYTES) };
}

/** In lines that one multiprocessor copies; undefined where the form does not go with the shape. */
function costOf(
  numSms: number,
  { outputs, rowBytes, isGated, keepsPartials }: WgmmaShape,
  form: WgmmaTileConfig,
): number | undefined {
  const { rows, groups, groupTiles, tileOutputs, splits } = form;
  const tiles = groups * groupTiles;
  const chunks = rowBytes / LINE_BYTES;
  const isPossible = chunks % splits === 0 && (!isGated || tiles % 2 === 0) && (splits === 1 || keepsPartials);
  if (!isPossible) return undefined;
  const width = tiles * tileOutputs;
  const lines = (chunks / splits) * (width + rows);
  // Sums are written and read again.
  const partLines = splits > 1 ? (width * rows * 4) / LINE_BYTES : 0;
  return ceilDiv(wgmmaBlocks(outputs, form), numSms) * (lines + partLines);
}

export function wgmmaBlocks(outputs: number, { groups, groupTiles, tileOutputs, splits }: WgmmaTileConfig): number {
  return ceilDiv(outputs, groups * groupTiles * tileOutputs) * splits;
}

/** Bytes of dynamic shared memory, with the padding for alignment to 1024. */
export function wgmmaSharedBytes({ rows, weightStages, rowStages }: WgmmaTileConfig): number {
  return weightStages * SLOT_BYTES + rowStages * rows * LINE_BYTES + 1024;
}

/** Largest size of a GEMM's split-K partial sums, of any kernel. */
export function splitKPartialsBytes(outputs: number): number {
  return ROOM_PARTS * MAX_ROWS * outputs * 4;
}
