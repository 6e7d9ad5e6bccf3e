/** The tensors of one of several GPUs, read as parts of those in the files. Knows no device. */
import type { StoredInt4Matrix } from "../../formats/tensors/stored-int4.ts";
import {
  expectTensorRange,
  type IntegerTensor,
  isPackedDtype,
  rowBytes,
  type StoredTensor,
  type TensorSource,
  tensorBytes,
} from "../../formats/tensors/tensor-source.ts";
import type { Range, WeightSlice } from "./rank-shard.ts";

/** Bytes read of a file at once for parts of its rows. */
const PIECE_BYTES = 16 << 20;

type Cut = NonNullable<WeightSlice["cut"]>;

export class ShardedTensors implements TensorSource {
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  readonly integers: ReadonlyMap<string, IntegerTensor>;
  readonly #files: TensorSource;
  readonly #slices: ReadonlyMap<string, WeightSlice>;

  /** Tensors that the files lack or hold in another shape are left out, or as they are: who loads them says so. */
  constructor(files: TensorSource, slices: ReadonlyMap<string, WeightSlice>) {
    const tensors = new Map<string, StoredTensor>();
    const integers = new Map<string, IntegerTensor>();
    for (const [name, slice] of slices) {
      const stored = files.tensors.get(slice.source.name);
      if (stored === undefined) continue;
      const integer = files.integers?.get(stored.name);
      // Tensors made from integers may be in blocks, which are never split.
      tensors.set(name, partOf(integer === undefined ? stored : { ...stored, dtype: "F32" }, name, slice));
      if (integer !== undefined) integers.set(name, slice.cut === undefined ? integer : cutInteger(integer, slice.cut));
    }
    this.tensors = tensors;
    this.integers = integers;
    this.#files = files;
    this.#slices = slices;
  }

  async read(name: string, into: Uint8Array, byteOffset = 0): Promise<void> {
    const { dtype } = expectTensorRange(this.tensors, name, into.byteLength, byteOffset);
    const slice = this.#slices.get(name);
    if (slice?.isZero === true) {
      into.fill(0);
      return;
    }
    const source = slice?.source.name ?? name;
    const { cut } = slice ?? {};
    if (cut === undefined) return this.#files.read(source, into, byteOffset);
    const elementBytes = rowBytes(dtype, 1);
    if (cut.axis === 0) {
      const columns = slice?.source.shape[1] ?? 1;
      return this.#readRuns(source, into, byteOffset, cut.ranges, columns * elementBytes);
    }
    return this.#readColumns(source, into, byteOffset, cut.ranges, elementBytes, slice?.source.shape[1] ?? 0);
  }

  close(): Promise<void> {
    return this.#files.close();
  }

  /** Whole rows: few long runs. */
  async #readRuns(
    source: string,
    into: Uint8Array,
    byteOffset: number,
    ranges: readonly Range[],
    bytesOfRow: number,
  ): Promise<void> {
    let start = 0;
    for (const { first, count } of ranges) {
      const end = start + count * bytesOfRow;
      const from = Math.max(start, byteOffset);
      const to = Math.min(end, byteOffset + into.byteLength);
      if (to > from) {
        const target = into.subarray(from - byteOffset, to - byteOffset);
        await this.#files.read(source, target, first * bytesOfRow + from - start);
      }
      start = end;
    }
  }

  /** Rows are read whole, and what is wanted of them is kept: that is faster than many short reads. */
  async #readColumns(
    source: string,
    into: Uint8Array,
    byteOffset: number,
    ranges: readonly Range[],
    elementBytes: number,
    columns: number,
  ): Promise<void> {
    const wholeBytes = columns * elementBytes;
    const partBytes = ranges.reduce((sum, { count }) => sum + count, 0) * elementBytes;
    const firstRow = Math.floor(byteOffset / partBytes);
    const endRow = Math.ceil((byteOffset + into.byteLength) / partBytes);
    const step = Math.max(1, Math.floor(PIECE_BYTES / wholeBytes));
    const piece = new Uint8Array(Math.min(step, endRow - firstRow) * wholeBytes);
    for (let row = firstRow; row < endRow; row += step) {
      const numRows = Math.min(step, endRow - row);
      const rows = piece.subarray(0, numRows * wholeBytes);
      await this.#files.read(source, rows, row * wholeBytes);
      for (let i = 0; i < numRows; i++) {
        const at = (row + i) * partBytes - byteOffset;
        copyRuns(rows.subarray(i * wholeBytes, (i + 1) * wholeBytes), into, at, ranges, elementBytes);
      }
    }
  }
}

/** Behind each other into `into` from `at` on, which may lie before its beginning. */
function copyRuns(row: Uint8Array, into: Uint8Array, at: number, ranges: readonly Range[], elementBytes: number): void {
  let place = at;
  for (const { first, count } of ranges) {
    const bytes = count * elementBytes;
    const skipped = Math.max(0, -place);
    const end = Math.min(bytes, into.byteLength - place);
    if (end > skipped) {
      into.set(row.subarray(first * elementBytes + skipped, first * elementBytes + end), place + skipped);
    }
    place += bytes;
  }
}

function partOf(stored: StoredTensor, name: string, { source, shape, cut }: WeightSlice): StoredTensor {
  const isAsExpected =
    stored.shape.length === source.shape.length && source.shape.every((size, i) => size === stored.shape[i]);
  if (!isAsExpected || (cut !== undefined && isPackedDtype(stored.dtype))) return { ...stored, name };
  return { ...stored, name, shape, byteLength: tensorBytes(stored.dtype, shape) };
}

function cutInteger(integer: IntegerTensor, { axis, ranges }: Cut): IntegerTensor {
  const { int4 } = integer;
  const isGrouped = ({ first, count }: Range): boolean =>
    int4 !== undefined && first % int4.groupSize === 0 && count % int4.groupSize === 0;
  if (axis === 0) {
    return {
      int4,
      readInt4: async () => takeRows(await integer.readInt4(), ranges),
      readFloats: (firstRow, numRows) => readFloatRows(integer, ranges, firstRow, numRows),
    };
  }
  return {
    int4: ranges.every(isGrouped) ? int4 : undefined,
    readInt4: async () => takeColumns(await integer.readInt4(), ranges),
    readFloats: async (firstRow, numRows) => takeParts(await integer.readFloats(firstRow, numRows), numRows, ranges, 1),
  };
}

async function readFloatRows(
  integer: IntegerTensor,
  ranges: readonly Range[],
  firstRow: number,
  numRows: number,
): Promise<Float32Array> {
  const parts: Float32Array[] = [];
  let start = 0;
  for (const { first, count } of ranges) {
    const from = Math.max(start, firstRow);
    const to = Math.min(start + count, firstRow + numRows);
    if (to > from) parts.push(await integer.readFloats(first + from - start, to - from));
    start += count;
  }
  if (parts.length === 1 && parts[0] !== undefined) return parts[0];
  const rows = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    rows.set(part, at);
    at += part.length;
  }
  return rows;
}

function takeRows(matrix: StoredInt4Matrix, ranges: readonly Range[]): StoredInt4Matrix {
  const { inputs, groupSize } = matrix;
  const outputs = ranges.reduce((sum, { count }) => sum + count, 0);
  const rows = <T extends Uint8Array | Float32Array>(values: T, width: number): T => {
    const taken = values.slice(0, outputs * width) as T;
    let at = 0;
    for (const { first, count } of ranges) {
      taken.set(values.subarray(first * width, (first + count) * width), at);
      at += count * width;
    }
    return taken;
  };
  const numGroups = inputs / groupSize;
  return {
    ...matrix,
    outputs,
    codes: rows(matrix.codes, inputs / 2),
    scales: rows(matrix.scales, numGroups),
    zeros: matrix.zeros && rows(matrix.zeros, numGroups),
  };
}

function takeColumns(matrix: StoredInt4Matrix, ranges: readonly Range[]): StoredInt4Matrix {
  const { outputs, groupSize, codes, scales, zeros, inputScales } = matrix;
  return {
    ...matrix,
    inputs: ranges.reduce((sum, { count }) => sum + count, 0),
    codes: takeParts(codes, outputs, ranges, 2),
    scales: takeParts(scales, outputs, ranges, groupSize),
    zeros: zeros && takeParts(zeros, outputs, ranges, groupSize),
    inputScales: inputScales && takeParts(inputScales, 1, ranges, 1),
  };
}

/** The elements of each row that lie in the ranges; `perElement` columns are one element. */
function takeParts<T extends Uint8Array | Float32Array>(
  values: T,
  numRows: number,
  ranges: readonly Range[],
  perElement: number,
): T {
  const width = values.length / numRows;
  const partWidth = ranges.reduce((sum, { count }) => sum + count, 0) / perElement;
  const taken = values.slice(0, numRows * partWidth) as T;
  for (let row = 0; row < numRows; row++) {
    let at = row * partWidth;
    for (const { first, count } of ranges) {
      const from = row * width + first / perElement;
      taken.set(values.subarray(from, from + count / perElement), at);
      at += count / perElement;
    }
  }
  return taken;
}
