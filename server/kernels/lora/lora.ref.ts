/**
 * Reference: rows of one adapter get b . (a . x) added to some of their columns; other rows stay. Source: LoRA (Hu et
 * al. 2021).
 */
import { linearRef } from "../linear/linear.ref.ts";

export interface LoraPartRef {
  readonly a: Float32Array; // [rank, inputs]
  readonly b: Float32Array; // [outputs, rank], the scale in it
  readonly rank: number;
  /** First column of the outputs in `y`. */
  readonly column: number;
}

export interface LoraRef {
  readonly x: Float32Array; // [numRows, inputs]
  readonly y: Float32Array; // [numRows, width]
  readonly inputs: number;
  readonly width: number;
  readonly rows: readonly number[];
  readonly parts: readonly LoraPartRef[];
}

/** [numRows, width] */
export function loraRef({ x, y, inputs, width, rows, parts }: LoraRef): Float32Array {
  const out = y.slice();
  for (const row of rows) {
    for (const { a, b, rank, column } of parts) {
      const low = linearRef({ x: x.subarray(row * inputs, (row + 1) * inputs), weight: a, inputs });
      const delta = linearRef({ x: low, weight: b, inputs: rank });
      for (const [i, value] of delta.entries()) {
        const at = row * width + column + i;
        out[at] = (out[at] ?? 0) + value;
      }
    }
  }
  return out;
}
