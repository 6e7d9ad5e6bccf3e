/**
 * Reads output rows of a Hugging Face matrix as floats, from any type and orientation. It holds at most one matrix: a
 * transposed one.
 */

import type { FloatType } from "@nereid/server/device/cpu/convert-elements";
import type { ElementConverter } from "@nereid/server/device/cpu/element-converter";
import { rowBytes, type StoredTensor, type TensorSource } from "@nereid/server/formats/tensors/tensor-source";
import type { LayoutTensor } from "@nereid/server/formats/trtllm/layout";
import { weightTypeOf } from "@nereid/server/models/weights/weight-types";

const FLOAT_BYTES: Readonly<Record<FloatType, number>> = { f32: 4, f16: 2, bf16: 2 };

/** Factors of a Hugging Face tensor, per output row and per input column. */
export interface WeightFactors {
  rows?: Float32Array;
  columns?: Float32Array;
}

/** By tensor name. */
export type FactorsByName = ReadonlyMap<string, Readonly<WeightFactors>>;

/** Traits of the matrix that contains a row. */
export type RowMatrix = Pick<LayoutTensor, "columns" | "isTransposed" | "addsOne">;

export class RowReader {
  readonly #source: TensorSource;
  readonly #convert: ElementConverter;
  readonly #factors: FactorsByName;
  #turned: { readonly name: string; readonly bytes: Uint8Array } | undefined;

  constructor(source: TensorSource, convert: ElementConverter, factors: FactorsByName = new Map()) {
    this.#source = source;
    this.#convert = convert;
    this.#factors = factors;
  }

  /** [numRows, columns] in `type`. */
  async read(name: string, matrix: RowMatrix, row: number, numRows: number, type: FloatType): Promise<Uint8Array> {
    const { columns = 1, addsOne } = matrix;
    const stored = this.#source.tensors.get(name);
    const from = stored && weightTypeOf(stored.dtype);
    if (stored === undefined) throw new Error(`the weights lack tensor "${name}"`);
    if (from === undefined) throw new Error(`tensor "${name}": expected F32, F16 or BF16, got ${stored.dtype}`);
    const bytes = await this.#readRows(stored, matrix, row, numRows);
    const factors = this.#factors.get(name);
    if (factors === undefined && !addsOne) return this.#convert(from, type, bytes);
    const values = new Float32Array(this.#convert(from, "f32", bytes).slice().buffer);
    if (addsOne) addOne(values);
    if (factors !== undefined) multiply(values, factors, row, columns);
    return this.#convert("f32", type, new Uint8Array(values.buffer));
  }

  async #readRows(stored: StoredTensor, matrix: RowMatrix, row: number, numRows: number): Promise<Uint8Array> {
    const { columns = 1, isTransposed } = matrix;
    if (isTransposed && matrix.columns !== undefined) return this.#readColumns(stored.name, columns, row, numRows);
    const bytes = new Uint8Array(numRows * rowBytes(stored.dtype, columns));
    await this.#source.read(stored.name, bytes, row * rowBytes(stored.dtype, columns));
    return bytes;
  }

  /** Rows of an [inputs, outputs] file are its columns. */
  async #readColumns(name: string, numInputs: number, first: number, count: number): Promise<Uint8Array> {
    const stored = this.#source.tensors.get(name);
    if (stored === undefined) throw new Error(`the weights lack tensor "${name}"`);
    if (this.#turned?.name !== name) {
      this.#turned = undefined;
      const bytes = new Uint8Array(stored.byteLength);
      await this.#source.read(name, bytes);
      this.#turned = { name, bytes };
    }
    const { buffer } = this.#turned.bytes;
    const size = rowBytes(stored.dtype, 1);
    if (size !== 2 && size !== 4) throw new Error(`tensor "${name}": expected F32, F16 or BF16, got ${stored.dtype}`);
    const from = size === 2 ? new Uint16Array(buffer) : new Uint32Array(buffer);
    const to = size === 2 ? new Uint16Array(count * numInputs) : new Uint32Array(count * numInputs);
    const numOutputs = from.length / numInputs;
    for (let input = 0; input < numInputs; input++) {
      for (let i = 0; i < count; i++) to[i * numInputs + input] = from[input * numOutputs + first + i] ?? 0;
    }
    return new Uint8Array(to.buffer);
  }
}

function addOne(values: Float32Array): void {
  for (let i = 0; i < values.length; i++) values[i] = (values[i] ?? 0) + 1;
}

function multiply(values: Float32Array, { rows, columns }: WeightFactors, firstRow: number, numColumns: number): void {
  for (let i = 0; i < values.length; i++) {
    const column = i % numColumns;
    const byRow = rows?.[firstRow + (i - column) / numColumns] ?? 1;
    values[i] = (values[i] ?? 0) * byRow * (columns?.[column] ?? 1);
  }
}

/** Some columns of rows of `numColumns` each. */
export function cutColumns(
  rows: Uint8Array,
  type: FloatType,
  numColumns: number,
  { first, count }: { readonly first: number; readonly count: number },
): Uint8Array {
  if (count === numColumns) return rows;
  const size = FLOAT_BYTES[type];
  const numRows = rows.byteLength / (numColumns * size);
  const out = new Uint8Array(numRows * count * size);
  for (let row = 0; row < numRows; row++) {
    const start = (row * numColumns + first) * size;
    out.set(rows.subarray(start, start + count * size), row * count * size);
  }
  return out;
}
