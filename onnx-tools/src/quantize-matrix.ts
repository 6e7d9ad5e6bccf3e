/** Quantizes a float matrix to 8-bit integers with one scale per column. Pure numbers. */

/** Processors without VNNI multiply uint8 exactly, while two products of int8 may overflow 16 bits. */
export type WeightInteger = "int8" | "uint8";

export interface IntegerMatrix {
  /** As many as floats; uint8 is offset by `zeroPoint`. */
  readonly data: Uint8Array;
  readonly scales: Float32Array;
  readonly zeroPoint: number;
}

export interface MatrixOptions {
  readonly type: WeightInteger;
  /** 7 bits instead of 8: sums of two products then fit 16 bits on every processor (`reduce_range`). */
  readonly isReduced: boolean;
}

/** `values` has `columns` numbers per row; all are finite. */
export function quantizeColumns(
  values: Float32Array,
  columns: number,
  { type, isReduced }: MatrixOptions,
): IntegerMatrix {
  const limit = isReduced ? 63 : 127;
  const zeroPoint = type === "uint8" ? 128 : 0;
  const scales = columnScales(values, columns, limit);
  const data = new Uint8Array(values.length);
  for (let start = 0; start < values.length; start += columns) {
    for (let column = 0; column < columns; column++) {
      const scaled = Math.round((values[start + column] ?? 0) / (scales[column] ?? 1));
      data[start + column] = Math.max(-limit, Math.min(limit, scaled)) + zeroPoint; // wraps to two's complement
    }
  }
  return { data, scales, zeroPoint };
}

/** 1 for a column of zeros. */
function columnScales(values: Float32Array, columns: number, limit: number): Float32Array {
  const scales = new Float32Array(columns);
  for (let start = 0; start < values.length; start += columns) {
    for (let column = 0; column < columns; column++) {
      const size = Math.abs(values[start + column] ?? 0);
      if (size > (scales[column] ?? 0)) scales[column] = size;
    }
  }
  for (let column = 0; column < columns; column++) scales[column] = (scales[column] ?? 0) / limit || 1;
  return scales;
}
