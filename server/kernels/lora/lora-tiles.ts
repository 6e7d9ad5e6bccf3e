/**
 * Splits the rows of a step into tiles that carry one adapter each, as GPU kernels take them. Pure; it knows adapters
 * by number and by address. Source: SGMV of Punica (Chen et al. 2023).
 */
import { groupKeptRows, groupRows, type LoraGroup, type LoraSpan } from "./lora-rows.ts";

export interface LoraTiles {
  /** Includes padding tiles. */
  readonly numTiles: number;
  readonly rowsPerTile: 8 | 32;
}

/** Small tiles leave little of the matrix units idle, large ones read a matrix less often. */
const SMALL_TILE = 8;
const LARGE_TILE = 32;

/** For `numRows` rows, `isFixed`: as many tiles as any adapters may need for them. */
export function planTiles(groups: readonly LoraGroup[], numRows: number, isFixed: boolean): LoraTiles {
  if (isFixed) return { numTiles: numRows, rowsPerTile: SMALL_TILE };
  const rowsPerTile = groups.some(({ rows }) => countOf(rows) > SMALL_TILE) ? LARGE_TILE : SMALL_TILE;
  return { numTiles: groups.reduce((sum, { rows }) => sum + Math.ceil(countOf(rows) / rowsPerTile), 0), rowsPerTile };
}

export function tileGroups(spans: readonly LoraSpan[], kept: Int32Array | undefined): readonly LoraGroup[] {
  return kept === undefined ? groupRows(spans) : groupKeptRows(spans, kept);
}

/**
 * Fills `into`: from `adaptersAt` on the addresses, two words a tile, from `rowsAt` on the rows. Tiles beyond those that
 * are needed are empty.
 */
export function writeTiles(
  groups: readonly LoraGroup[],
  { numTiles, rowsPerTile }: LoraTiles,
  addressOf: (adapter: number) => bigint,
  into: Int32Array,
  { adaptersAt, rowsAt }: { readonly adaptersAt: number; readonly rowsAt: number },
): void {
  into.fill(0, adaptersAt, adaptersAt + 2 * numTiles);
  into.fill(-1, rowsAt, rowsAt + numTiles * rowsPerTile);
  let tile = 0;
  for (const { adapter, rows } of groups) {
    const address = addressOf(adapter);
    const [low, high] = [Number(BigInt.asIntN(32, address)), Number(BigInt.asIntN(32, address >> 32n))];
    const count = countOf(rows);
    for (let first = 0; first < count; first += rowsPerTile) {
      if (tile === numTiles) throw new Error(`rows with adapters need more than ${numTiles} tiles`);
      into[adaptersAt + 2 * tile] = low;
      into[adaptersAt + 2 * tile + 1] = high;
      const at = rowsAt + tile * rowsPerTile;
      for (let i = 0; i < Math.min(rowsPerTile, count - first); i++) into[at + i] = rowAt(rows, first + i);
      tile += 1;
    }
  }
}

function countOf(rows: LoraGroup["rows"]): number {
  return rows.kind === "range" ? rows.count : rows.ids.length;
}

function rowAt(rows: LoraGroup["rows"], i: number): number {
  return rows.kind === "range" ? rows.first + i : (rows.ids[i] ?? -1);
}
