/**
 * Decodes the INT4 tensors of a checkpoint into one matrix. GPTQ packs eight inputs of an output into a word; AWQ packs
 * eight outputs of an input, in an order of its own. Tensors in, one matrix out; reads no file. Source: GPTQ (Frantar
 * et al. 2022), AWQ (Lin et al. 2023).
 */
import { fp16ToNumber } from "../../src/core/fp16.ts";
import type { Int4Matrix } from "./pack-int4.ts";

export interface Int4Tensors {
  readonly format: "gptq" | "awq";
  readonly outputs: number;
  readonly inputs: number;
  readonly groupSize: number;
  /** gptq: [inputs / 8, outputs]; awq: [inputs, outputs / 8] */
  readonly qweight: Uint32Array;
  /** [inputs / groupSize, outputs / 8] */
  readonly qzeros: Uint32Array;
  /** f16 [inputs / groupSize, outputs] */
  readonly scales: Uint16Array;
  /** GPTQ of version 1 stores each zero less one. */
  readonly zeroOffset?: number;
}

/** Place p of a word of AWQ holds this one of its eight outputs. */
const AWQ_ORDER: readonly number[] = [0, 2, 4, 6, 1, 3, 5, 7];
const IN_ORDER: readonly number[] = [0, 1, 2, 3, 4, 5, 6, 7];

/** @throws Error when a tensor has another size than the shape says */
export function readInt4(tensors: Int4Tensors): Int4Matrix {
  const { format, outputs, inputs, groupSize, qweight, qzeros, scales } = tensors;
  const numGroups = inputs / groupSize;
  expectSize("qweight", qweight.length, (inputs * outputs) / 8);
  expectSize("qzeros", qzeros.length, (numGroups * outputs) / 8);
  expectSize("scales", scales.length, numGroups * outputs);
  const zeroOffset = tensors.zeroOffset ?? (format === "gptq" ? 1 : 0);
  return {
    outputs,
    inputs,
    groupSize,
    codes: format === "gptq" ? gptqCodes(tensors) : awqCodes(tensors),
    scales: transposedScales(scales, numGroups, outputs),
    zeros: zerosOf(qzeros, numGroups, outputs, format === "gptq" ? IN_ORDER : AWQ_ORDER, zeroOffset),
  };
}

function gptqCodes({ outputs, inputs, qweight }: Int4Tensors): Uint8Array {
  const codes = new Uint8Array((outputs * inputs) / 2);
  const view = new DataView(codes.buffer);
  // A word's nibbles are eight inputs in order: the row of an output as it is.
  for (let k = 0; k < inputs / 8; k++) {
    for (let output = 0; output < outputs; output++) {
      view.setUint32((output * inputs) / 2 + k * 4, qweight[k * outputs + output] ?? 0, true);
    }
  }
  return codes;
}

function awqCodes({ outputs, inputs, qweight }: Int4Tensors): Uint8Array {
  const codes = new Uint8Array((outputs * inputs) / 2);
  const rowBytes = inputs / 2;
  for (let k = 0; k < inputs; k++) {
    for (let n = 0; n < outputs / 8; n++) {
      const word = qweight[(k * outputs) / 8 + n] ?? 0;
      for (let place = 0; place < 8; place++) {
        const at = (n * 8 + (AWQ_ORDER[place] ?? 0)) * rowBytes + (k >> 1);
        codes[at] = (codes[at] ?? 0) | (((word >>> (4 * place)) & 15) << (4 * (k % 2)));
      }
    }
  }
  return codes;
}

function transposedScales(scales: Uint16Array, numGroups: number, outputs: number): Float32Array {
  const out = new Float32Array(scales.length);
  for (let group = 0; group < numGroups; group++) {
    for (let output = 0; output < outputs; output++) {
      out[output * numGroups + group] = fp16ToNumber(scales[group * outputs + output] ?? 0);
    }
  }
  return out;
}

function zerosOf(
  qzeros: Uint32Array,
  numGroups: number,
  outputs: number,
  order: readonly number[],
  offset: number,
): Uint8Array {
  const out = new Uint8Array(numGroups * outputs);
  for (let group = 0; group < numGroups; group++) {
    for (let n = 0; n < outputs / 8; n++) {
      const word = qzeros[(group * outputs) / 8 + n] ?? 0;
      for (let place = 0; place < 8; place++) {
        const output = n * 8 + (order[place] ?? 0);
        out[output * numGroups + group] = (((word >>> (4 * place)) & 15) + offset) & 15;
      }
    }
  }
  return out;
}

function expectSize(what: string, actual: number, expected: number): void {
  if (actual !== expected) throw new Error(`4-bit ${what}: expected ${expected} elements, got ${actual}`);
}
