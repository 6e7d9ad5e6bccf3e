/**
 * INT4 weights in the order in which the GPU kernels read them. A chunk is 64 outputs by 64 inputs: four tiles of 16
 * outputs, each of 32 lanes, each lane with one word for each of four steps of 16 inputs. A word holds one lane's part
 * of a 16 x 16 A fragment. Let g = lane / 4 and t = lane % 4. Nibbles i and i + 4 are the inputs 2t and 2t + 1, 8 more
 * for i of 2 and 3. They belong to output g, or to g + 8 for odd i. Knows no file format. Source: Marlin (Frantar et
 * al. 2024), offline shuffle; PTX ISA, mma.sync fragments.
 */
import { numberToFp16 } from "../../src/core/fp16.ts";

/** A matrix of codes 0 to 15, each standing for (code - zero) * scale. */
export interface Int4Matrix {
  readonly outputs: number;
  readonly inputs: number;
  /** Inputs that share a scale: 32, 64 or a multiple of 128 that divides `inputs`. */
  readonly groupSize: number;
  /** [outputs, inputs / 2]: the lower half of a byte is the earlier input. */
  readonly codes: Uint8Array;
  /** [outputs, inputs / groupSize] */
  readonly scales: Float32Array;
  /** [outputs, inputs / groupSize] of 0 to 15; absent when every zero is 8. */
  readonly zeros?: Uint8Array | undefined;
}

export interface PackedInt4 {
  readonly codes: Uint32Array; // [outputs / 64, inputs / 64, 4, 32, 4]
  readonly scales: Uint16Array; // f16 [inputs / groupSize, outputs / 64, 8, 8]
  readonly zeros?: Uint32Array | undefined; // [inputs / groupSize, outputs / 64, 8] of eight nibbles
}

export const INT4_BLOCK = 64;
const TILE = 16;
const LANES = 32;
const TILES = INT4_BLOCK / TILE;
const NIBBLES = 8;

/** @throws Error when the matrix has a shape that the kernel does not take */
export function packInt4(matrix: Int4Matrix): PackedInt4 {
  expectInt4Shape(matrix.outputs, matrix.inputs, matrix.groupSize);
  const { codes, scales, zeros } = matrix;
  const numGroups = matrix.inputs / matrix.groupSize;
  expectLength("codes", codes.length, (matrix.outputs * matrix.inputs) / 2);
  expectLength("scales", scales.length, matrix.outputs * numGroups);
  if (zeros !== undefined) expectLength("zeros", zeros.length, matrix.outputs * numGroups);
  return { codes: packCodes(matrix), scales: packScales(matrix), zeros: zeros && packZeros(matrix, zeros) };
}

export function expectInt4Shape(outputs: number, inputs: number, groupSize: number): void {
  const isGroup = groupSize === 32 || groupSize === 64 || (groupSize > 0 && groupSize % 128 === 0);
  const isWhole = outputs > 0 && inputs > 0 && outputs % INT4_BLOCK === 0 && inputs % INT4_BLOCK === 0;
  if (isGroup && isWhole && inputs % groupSize === 0) return;
  throw new Error(
    `4-bit weights: expected outputs and inputs in multiples of ${INT4_BLOCK}, and groups of 32, 64 or a multiple of 128, got ${outputs} x ${inputs} in groups of ${groupSize}`,
  );
}

function packCodes({ outputs, inputs, codes }: Int4Matrix): Uint32Array {
  const words = new Uint32Array((outputs * inputs) / NIBBLES);
  const rowBytes = inputs / 2;
  const numChunks = inputs / INT4_BLOCK;
  let at = 0;
  for (let block = 0; block < outputs / INT4_BLOCK; block++) {
    for (let chunk = 0; chunk < numChunks; chunk++) {
      for (let tile = 0; tile < TILES; tile++) {
        for (let lane = 0; lane < LANES; lane++) {
          const row = (block * INT4_BLOCK + tile * TILE + (lane >> 2)) * rowBytes;
          const column = (chunk * INT4_BLOCK) / 2 + (lane & 3);
          for (let step = 0; step < INT4_BLOCK / TILE; step++) {
            words[at] = packWord(codes, row + column + step * (TILE / 2), rowBytes * 8);
            at += 1;
          }
        }
      }
    }
  }
  return words;
}

/** `at`: the byte of inputs 2t and 2t + 1 of output g; `eightRows`: bytes to output g + 8. */
function packWord(codes: Uint8Array, at: number, eightRows: number): number {
  const a0 = codes[at] ?? 0;
  const a1 = codes[at + eightRows] ?? 0;
  const a2 = codes[at + 4] ?? 0;
  const a3 = codes[at + eightRows + 4] ?? 0;
  const low = (a0 & 15) | ((a1 & 15) << 4) | ((a2 & 15) << 8) | ((a3 & 15) << 12);
  const high = (a0 >> 4) | (a1 & 0xf0) | ((a2 >> 4) << 8) | ((a3 >> 4) << 12);
  return (low | (high << 16)) >>> 0;
}

function packScales({ outputs, inputs, groupSize, scales }: Int4Matrix): Uint16Array {
  const out = new Uint16Array(scales.length);
  eachGroupValue(outputs, inputs / groupSize, (from, to) => {
    out[to] = numberToFp16(scales[from] ?? 0);
  });
  return out;
}

function packZeros({ outputs, inputs, groupSize }: Int4Matrix, zeros: Uint8Array): Uint32Array {
  const out = new Uint32Array(zeros.length / NIBBLES);
  eachGroupValue(outputs, inputs / groupSize, (from, to) => {
    const word = Math.floor(to / NIBBLES);
    out[word] = ((out[word] ?? 0) | ((zeros[from] ?? 0) << (4 * (to % NIBBLES)))) >>> 0;
  });
  return out;
}

/** Each [output, group] with its place in [group, outputs / 64, g, 2 * tile + (0 for g, 1 for g + 8)]. */
function eachGroupValue(outputs: number, numGroups: number, use: (from: number, to: number) => void): void {
  for (let output = 0; output < outputs; output++) {
    const block = Math.floor(output / INT4_BLOCK);
    const inBlock = output % INT4_BLOCK;
    const place = (inBlock % 8) * 8 + 2 * Math.floor(inBlock / TILE) + Math.floor((inBlock % TILE) / 8);
    for (let group = 0; group < numGroups; group++) {
      use(output * numGroups + group, group * outputs + block * INT4_BLOCK + place);
    }
  }
}

function expectLength(what: string, actual: number, expected: number): void {
  if (actual !== expected) throw new Error(`4-bit weights: expected ${expected} ${what}, got ${actual}`);
}
