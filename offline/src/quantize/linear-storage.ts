/** Interface between the checkpoint writer and each quantized storage. */
import type { LayoutTensor, PartSlice } from "@nereid/server/formats/trtllm/layout";
import type { SafetensorsEntry } from "../checkpoint/safetensors-writer.ts";

/** A rank's shard of one matrix, or of all experts' matrices of a layer. */
export interface RankMatrix {
  /** Name in the rank's file, without ".weight". */
  readonly module: string;
  /** Undefined: one matrix. */
  readonly numExperts: number | undefined;
  /** Rows of all experts. */
  readonly numRows: number;
  /** Inputs of the whole model. */
  readonly numColumns: number;
  /** Columns of this rank. */
  readonly columns: { readonly first: number; readonly count: number };
  /** Source tensors and rows of its rows, in order. */
  readonly slices: readonly PartSlice[];
  /** Reads whole rows, [count, numColumns]; rows of an expert are contiguous. */
  read(firstRow: number, count: number): Promise<Float32Array>;
}

export type WriteTensor = (name: string, bytes: Uint8Array) => Promise<void>;

export interface LinearStorage {
  /** Whether a matrix uses this storage; others stay floats. Absent: all do. */
  takes?(tensor: LayoutTensor): boolean;
  /** The lm_head uses this storage too. Absent: it stays floats. */
  readonly takesOutput?: boolean;
  /** In the order in which `write` writes them. */
  plan(matrix: Omit<RankMatrix, "read">): readonly SafetensorsEntry[];
  write(matrix: RankMatrix, write: WriteTensor): Promise<void>;
  /** Names of scalar tensors beside the matrices, each equal to one. `names`: tensors of a rank. */
  ones?(names: ReadonlySet<string>): readonly string[];
}

const PIECE_ELEMENTS = 1 << 20;

/** Rows per piece. */
export function rowsPerPiece(numColumns: number): number {
  return Math.max(1, Math.floor(PIECE_ELEMENTS / numColumns));
}

/** `from` and `count` of each piece of `numRows` rows. */
export function* rowPieces(numRows: number, numColumns: number): Generator<readonly [first: number, count: number]> {
  const step = rowsPerPiece(numColumns);
  for (let first = 0; first < numRows; first += step) yield [first, Math.min(step, numRows - first)];
}

/** Pieces with an even number of rows, for storage of two rows per byte. */
export function* evenRowPieces(
  numRows: number,
  numColumns: number,
): Generator<readonly [first: number, count: number]> {
  for (const [first, count] of rowPieces(numRows / 2, 2 * numColumns)) yield [2 * first, 2 * count];
}
