/**
 * Unpacks a linear layer of an AutoAWQ checkpoint ("GEMM" version). Source: AWQ, Lin et al. 2023, and AutoAWQ's packing
 * order. It opens no file.
 */
import type { QuantizedMatrix } from "./quantized-matrix.ts";

/** Tensors as stored. */
export interface AwqLayer {
  readonly inputs: number;
  readonly outputs: number;
  readonly groupSize: number;
  /** [inputs, outputs / 8] */
  readonly qweight: Int32Array;
  /** [groups, outputs / 8] */
  readonly qzeros: Int32Array;
  /** [groups, outputs] */
  readonly scales: Float32Array;
}

/** Output index within a word for each nibble, from the lowest nibble up. */
const OUTPUT_OF_NIBBLE: readonly number[] = [0, 2, 4, 6, 1, 3, 5, 7];
const PER_WORD = 8;

export function unpackAwq({ inputs, outputs, groupSize, qweight, qzeros, scales }: AwqLayer): QuantizedMatrix {
  const numGroups = inputs / groupSize;
  const values = new Uint8Array(outputs * inputs);
  const zeros = new Uint16Array(outputs * numGroups);
  transposeNibbles(qweight, inputs, outputs, values);
  transposeNibbles(qzeros, numGroups, outputs, zeros);
  return {
    outputs,
    inputs,
    bits: 4,
    values,
    groupSize,
    groupOf: undefined,
    numGroups,
    scales: transposeScales(scales, numGroups, outputs),
    zeros,
  };
}

/** Transposes [groups, outputs] to [outputs, groups]. */
export function transposeScales(scales: Float32Array, numGroups: number, outputs: number): Float32Array {
  const out = new Float32Array(scales.length);
  for (let output = 0; output < outputs; output++) {
    for (let group = 0; group < numGroups; group++) {
      out[output * numGroups + group] = scales[group * outputs + output] ?? 0;
    }
  }
  return out;
}

/** Words [rows, outputs / 8] to values [outputs, rows]: each word column becomes eight rows, written in order. */
function transposeNibbles(words: Int32Array, rows: number, outputs: number, into: Uint8Array | Uint16Array): void {
  const numColumns = outputs / PER_WORD;
  for (let column = 0; column < numColumns; column++) {
    for (let row = 0; row < rows; row++) {
      const word = words[row * numColumns + column] ?? 0;
      for (let nibble = 0; nibble < PER_WORD; nibble++) {
        const output = column * PER_WORD + (OUTPUT_OF_NIBBLE[nibble] ?? 0);
        into[output * rows + row] = (word >>> (4 * nibble)) & 15;
      }
    }
  }
}
