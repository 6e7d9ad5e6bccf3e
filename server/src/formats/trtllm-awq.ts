/**
 * Unpacks int4 AWQ weights of a TensorRT-LLM checkpoint: bytes of two signed nibbles, of an even output below and of the
 * next one above. It opens no file.
 */
import type { QuantizedMatrix } from "./quantized-matrix.ts";

/** As stored. */
export interface TrtllmAwqLayer {
  readonly outputs: number;
  readonly inputs: number;
  readonly groupSize: number;
  /** [outputs / 2, inputs] */
  readonly weight: Uint8Array;
  /** [outputs, inputs / groupSize] */
  readonly scales: Float32Array;
  /** [inputs]; undefined when inputs are taken as they are. */
  readonly inputScales: Float32Array | undefined;
}

/** Adding 8 to a signed nibble flips its highest bit. */
const MIDDLE = 8;

/** The outputs from `firstRow` on, `numRows` of them. */
export function unpackTrtllmAwq(layer: TrtllmAwqLayer, firstRow: number, numRows: number): QuantizedMatrix {
  const { inputs, groupSize, weight, scales, inputScales } = layer;
  const numGroups = inputs / groupSize;
  const values = new Uint8Array(numRows * inputs);
  for (let row = 0; row < numRows; row++) {
    const source = Math.floor((firstRow + row) / 2) * inputs;
    const shift = (firstRow + row) % 2 === 0 ? 0 : 4;
    for (let i = 0; i < inputs; i++) values[row * inputs + i] = (((weight[source + i] ?? 0) >>> shift) & 15) ^ MIDDLE;
  }
  return {
    outputs: numRows,
    inputs,
    bits: 4,
    values,
    groupSize,
    groupOf: undefined,
    numGroups,
    scales: scales.slice(firstRow * numGroups, (firstRow + numRows) * numGroups),
    zeros: new Uint16Array(numRows * numGroups).fill(MIDDLE),
    inputScales,
  };
}
