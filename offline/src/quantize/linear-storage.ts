/** How the matrices of linear layers are kept in a checkpoint: the contract of its writer with each way to quantize. */
import type { LayoutTensor, PartSlice } from "@nereid/server/formats/trtllm/layout";
import type { TensorPlan } from "../checkpoint/safetensors-writer.ts";

/** The share of a rank of one matrix, or of those of all experts of a layer. */
export interface RankMatrix {
  /** In the file of the rank, without ".weight". */
  readonly module: string;
  /** Undefined: one matrix. */
  readonly numExperts: number | undefined;
  /** Of all experts. */
  readonly numRows: number;
  /** Of the whole model. */
  readonly numColumns: number;
  /** Those of this rank. */
  readonly columns: { readonly first: number; readonly count: number };
  /** Which rows of which tensors of the model its rows are, in order. */
  readonly slices: readonly PartSlice[];
  /** Rows with all columns, [count, numColumns]; those of an expert lie together. */
  read(firstRow: number, count: number): Promise<Float32Array>;
}

export type WriteTensor = (name: string, bytes: Uint8Array) => Promise<void>;

export interface LinearStorage {
  /** Whether a matrix is kept so; others stay floats. Absent: all are. */
  takes?(tensor: LayoutTensor): boolean;
  /** The matrix of logits is kept so too. Absent: it stays floats. */
  readonly takesOutput?: boolean;
  /** In the order in which `write` writes them. */
  plan(matrix: Omit<RankMatrix, "read">): readonly TensorPlan[];
  write(matrix: RankMatrix, write: WriteTensor): Promise<void>;
  /** Names of single numbers beside the matrices, each of them one. `names`: of the tensors of a rank. */
  ones?(names: ReadonlySet<string>): readonly string[];
}

const PIECE_ELEMENTS = 1 << 20;

/** Rows that are worked on at a time. */
export function rowsPerPiece(numColumns: number): number {
  return Math.max(1, Math.floor(PIECE_ELEMENTS / numColumns));
}

/** `from` and `count` of each piece of `numRows` rows. */
export function* rowPieces(numRows: number, numColumns: number): Generator<readonly [first: number, count: number]> {
  const step = rowsPerPiece(numColumns);
  for (let first = 0; first < numRows; first += step) yield [first, Math.min(step, numRows - first)];
}

/** Pieces of an even number of rows, where two share a byte. */
export function* evenRowPieces(
  numRows: number,
  numColumns: number,
): Generator<readonly [first: number, count: number]> {
  for (const [first, count] of rowPieces(numRows / 2, 2 * numColumns)) yield [2 * first, 2 * count];
}
