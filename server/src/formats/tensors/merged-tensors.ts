/**
 * Tensors assembled from rectangles of other tensors: shards of several ranks, or stacked projections. Source: the
 * tensor-parallel layouts of TensorRT-LLM checkpoints (trtllm/layout.ts).
 */
import { expectTensorRange, rowBytes, type StoredTensor, type TensorSource } from "./tensor-source.ts";

/** A rectangle of one tensor that becomes a rectangle of another. A vector counts as a matrix of one column. */
export interface TensorPiece {
  readonly source: TensorSource;
  readonly name: string;
  readonly sourceRow: number;
  readonly row: number;
  readonly numRows: number;
  readonly column: number;
  /** Undefined: all columns of the source. */
  readonly numColumns: number;
}

export interface MergedTensor {
  readonly tensor: StoredTensor;
  readonly pieces: readonly TensorPiece[];
}

export class MergedTensors implements TensorSource {
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  readonly #merged: ReadonlyMap<string, MergedTensor>;
  readonly #sources: readonly TensorSource[];

  /** Takes ownership of the sources. */
  constructor(merged: readonly MergedTensor[], sources: readonly TensorSource[]) {
    this.#merged = new Map(merged.map((one) => [one.tensor.name, one]));
    this.tensors = new Map(merged.map(({ tensor }) => [tensor.name, tensor]));
    this.#sources = sources;
  }

  async read(name: string, into: Uint8Array, byteOffset = 0): Promise<void> {
    const { dtype, shape } = expectTensorRange(this.tensors, name, into.byteLength, byteOffset);
    const rowLength = rowBytes(dtype, shape[1] ?? 1);
    const firstRow = Math.floor(byteOffset / rowLength);
    const numRows = Math.ceil((byteOffset + into.byteLength) / rowLength) - firstRow;
    const isWhole = byteOffset % rowLength === 0 && into.byteLength === numRows * rowLength;
    const rows = isWhole ? into : new Uint8Array(numRows * rowLength);
    for (const piece of this.#merged.get(name)?.pieces ?? []) {
      await readPiece(piece, rows, { firstRow, numRows, rowLength, elementBytes: rowBytes(dtype, 1) });
    }
    if (isWhole) return;
    const start = byteOffset - firstRow * rowLength;
    into.set(rows.subarray(start, start + into.byteLength));
  }

  async close(): Promise<void> {
    await Promise.all(this.#sources.map((source) => source.close()));
  }
}

interface RowRange {
  readonly firstRow: number;
  readonly numRows: number;
  readonly rowLength: number;
  readonly elementBytes: number;
}

/** Reads the overlap of range and piece, and copies it to its position. */
async function readPiece(piece: TensorPiece, rows: Uint8Array, range: RowRange): Promise<void> {
  const from = Math.max(piece.row, range.firstRow);
  const to = Math.min(piece.row + piece.numRows, range.firstRow + range.numRows);
  if (from >= to) return;
  const pieceLength = piece.numColumns * range.elementBytes;
  const sourceOffset = (piece.sourceRow + from - piece.row) * pieceLength;
  const target = (from - range.firstRow) * range.rowLength;
  if (pieceLength === range.rowLength) {
    await piece.source.read(piece.name, rows.subarray(target, target + (to - from) * pieceLength), sourceOffset);
    return;
  }
  const read = new Uint8Array((to - from) * pieceLength);
  await piece.source.read(piece.name, read, sourceOffset);
  for (let i = 0; i < to - from; i++) {
    const at = target + i * range.rowLength + piece.column * range.elementBytes;
    rows.set(read.subarray(i * pieceLength, (i + 1) * pieceLength), at);
  }
}
