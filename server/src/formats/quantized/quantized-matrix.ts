/**
 * A group-quantized weight matrix, independent of its storage layout (AWQ, GPTQ, compressed-tensors, TensorRT-LLM).
 * Converts it to floats or to ggml blocks. Source: ggml-common.h, block_q4_0, block_q4_1 and block_q8_0. It knows no
 * file.
 */
import { numberToFp16 } from "../../core/fp16.ts";
import type { StoredInt4Groups, StoredInt4Matrix } from "../tensors/stored-int4.ts";
import { PACKED_BLOCKS } from "../tensors/tensor-source.ts";

/** An element is (value - zero) * scale, with the zero point and scale of its row and group. */
export interface QuantizedMatrix {
  readonly outputs: number;
  readonly inputs: number;
  readonly bits: 4 | 8;
  /** [outputs, inputs] */
  readonly values: Uint8Array;
  /** Inputs of a group, when groups are contiguous. */
  readonly groupSize: number;
  /** Group of each input, when they are not contiguous; [inputs] */
  readonly groupOf: Int32Array | undefined;
  readonly numGroups: number;
  /** [outputs, numGroups] */
  readonly scales: Float32Array;
  /** [outputs, numGroups]; up to 256, because one format stores zero points minus one. */
  readonly zeros: Uint16Array;
  /** Decoding table of the values when they are not integers (FP8). */
  readonly levels?: Float32Array | undefined;
  /** Multiplier of each input before the GEMM (AWQ pre_quant_scale); undefined when there is none. [inputs] */
  readonly inputScales?: Float32Array | undefined;
}

/** ggml block type of the matrix: Q4_0 when each zero point is 8, Q8_0 when each is 128. */
export type MatrixBlocks = "Q4_0" | "Q4_1" | "Q8_0";

const BLOCK = 32;
const HALF_BLOCK = 16;
const MIDDLE_OF_FOUR_BITS = 8;
const MAX_FOUR_BITS = 15;

/**
 * Undefined when only floats can hold it: input multipliers, groups that are not contiguous or cut blocks, 8-bit
 * asymmetric values.
 */
export function blocksFor(
  matrix: Pick<QuantizedMatrix, "bits" | "inputs" | "groupSize" | "groupOf" | "inputScales">,
  isSymmetric: boolean,
): MatrixBlocks | undefined {
  const { bits, inputs, groupSize, groupOf, inputScales } = matrix;
  if (groupOf !== undefined || inputScales !== undefined || groupSize % BLOCK !== 0 || inputs % BLOCK !== 0)
    return undefined;
  if (bits === 8) return isSymmetric ? "Q8_0" : undefined;
  return isSymmetric ? "Q4_0" : "Q4_1";
}

/** Undefined when it is not INT4, or its groups are not contiguous multiples of a block. */
export function int4Groups(
  matrix: Pick<QuantizedMatrix, "bits" | "inputs" | "groupSize" | "groupOf" | "inputScales">,
  isSymmetric: boolean,
): StoredInt4Groups | undefined {
  if (matrix.bits !== 4 || blocksFor({ ...matrix, inputScales: undefined }, isSymmetric) === undefined)
    return undefined;
  return {
    groupSize: matrix.groupSize,
    hasZeros: !isSymmetric,
    hasInputScales: matrix.inputScales !== undefined,
  };
}

/** Group of each input; undefined when groups are contiguous runs of `groupSize`. */
export function irregularGroups(groupOf: Int32Array, groupSize: number): Int32Array | undefined {
  return groupOf.every((group, i) => group === Math.floor(i / groupSize)) ? undefined : groupOf;
}

/** Two codes a byte. @throws Error for zero points that INT4 cannot hold */
export function toInt4(matrix: QuantizedMatrix): StoredInt4Matrix {
  const { outputs, inputs, groupSize, values, scales } = matrix;
  const codes = new Uint8Array((outputs * inputs) / 2);
  for (let i = 0; i < codes.length; i++) codes[i] = (values[2 * i] ?? 0) | ((values[2 * i + 1] ?? 0) << 4);
  const isSymmetric = matrix.zeros.every((zero) => zero === MIDDLE_OF_FOUR_BITS);
  const wrong = matrix.zeros.find((zero) => zero > MAX_FOUR_BITS);
  if (wrong !== undefined) throw new Error(`zeros of 4-bit weights: expected 0 to ${MAX_FOUR_BITS}, got ${wrong}`);
  const zeros = isSymmetric ? undefined : Uint8Array.from(matrix.zeros);
  return { outputs, inputs, groupSize, codes, scales, zeros, inputScales: matrix.inputScales };
}

/** Rows as floats, [numRows, inputs]. */
export function dequantizeRows(matrix: QuantizedMatrix, firstRow: number, numRows: number): Float32Array {
  const { inputs, groupOf, groupSize, numGroups, scales, inputScales } = matrix;
  const out = new Float32Array(numRows * inputs);
  for (let row = 0; row < numRows; row++) {
    const levels = out.subarray(row * inputs, (row + 1) * inputs);
    fillLevels(matrix, firstRow + row, levels);
    const groups = (firstRow + row) * numGroups;
    for (let i = 0; i < inputs; i++) {
      const group = groups + (groupOf === undefined ? Math.floor(i / groupSize) : (groupOf[i] ?? 0));
      levels[i] = (levels[i] ?? 0) * (scales[group] ?? 0);
    }
    if (inputScales !== undefined) multiply(levels, inputScales);
  }
  return out;
}

/** A row without its scales. */
function fillLevels(matrix: QuantizedMatrix, row: number, into: Float32Array): void {
  const { inputs, values, groupOf, groupSize, numGroups, zeros, levels } = matrix;
  for (let i = 0; i < inputs; i++) {
    const value = values[row * inputs + i] ?? 0;
    if (levels !== undefined) into[i] = levels[value] ?? 0;
    else {
      const group = row * numGroups + (groupOf === undefined ? Math.floor(i / groupSize) : (groupOf[i] ?? 0));
      into[i] = value - (zeros[group] ?? 0);
    }
  }
}

function multiply(values: Float32Array, by: Float32Array): void {
  for (let i = 0; i < values.length; i++) values[i] = (values[i] ?? 0) * (by[i] ?? 0);
}

/**
 * Rows as ggml blocks. Q4_0 and Q8_0 are exact for FP16 scales. Q4_1 also rounds the product of zero point and scale to
 * FP16.
 */
export function packRows(matrix: QuantizedMatrix, blocks: MatrixBlocks, firstRow: number, numRows: number): Uint8Array {
  const { inputs, values, groupSize, numGroups, scales, zeros } = matrix;
  const { numBytes } = PACKED_BLOCKS[blocks];
  const perRow = inputs / BLOCK;
  const out = new Uint8Array(numRows * perRow * numBytes);
  for (let i = 0; i < numRows * perRow; i++) {
    const row = firstRow + Math.floor(i / perRow);
    const column = (i % perRow) * BLOCK;
    const group = row * numGroups + Math.floor(column / groupSize);
    const at = i * numBytes;
    const scale = scales[group] ?? 0;
    writeHalf(out, at, scale);
    if (blocks === "Q4_1") writeHalf(out, at + 2, -(zeros[group] ?? 0) * scale);
    if (blocks === "Q8_0") writeBytes(out, at + 2, values, row * inputs + column);
    else writeNibbles(out, at + numBytes - HALF_BLOCK, values, row * inputs + column);
  }
  return out;
}

function writeBytes(out: Uint8Array, at: number, values: Uint8Array, from: number): void {
  for (let i = 0; i < BLOCK; i++) out[at + i] = ((values[from + i] ?? 0) - 128) & 0xff;
}

/** The first half of a block is in the low nibbles, the second in the high ones. */
function writeNibbles(out: Uint8Array, at: number, values: Uint8Array, from: number): void {
  for (let i = 0; i < HALF_BLOCK; i++) {
    out[at + i] = (values[from + i] ?? 0) | ((values[from + HALF_BLOCK + i] ?? 0) << 4);
  }
}

function writeHalf(out: Uint8Array, at: number, value: number): void {
  const bits = numberToFp16(value);
  if ((bits & 0x7c00) === 0x7c00) throw new Error(`a scale of ${value} is outside half precision`);
  out[at] = bits & 0xff;
  out[at + 1] = bits >>> 8;
}
