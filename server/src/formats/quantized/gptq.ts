/**
 * Unpacks a linear layer of a GPTQ checkpoint, format versions 1 and 2, in 4 or 8 bits. Source: GPTQ, Frantar et al.
 * 2022, and AutoGPTQ's storage. It opens no file.
 */
import { transposeScales } from "./awq.ts";
import { irregularGroups, type QuantizedMatrix } from "./quantized-matrix.ts";

/** Tensors as stored. */
export interface GptqLayer {
  readonly inputs: number;
  readonly outputs: number;
  readonly bits: 4 | 8;
  readonly groupSize: number;
  /** Format version 1 stores zero points minus one. */
  readonly version: 1 | 2;
  /** [inputs * bits / 32, outputs] */
  readonly qweight: Int32Array;
  /** [groups, outputs * bits / 32] */
  readonly qzeros: Int32Array;
  /** [groups, outputs] */
  readonly scales: Float32Array;
  /** [inputs]; undefined when groups are contiguous. */
  readonly groupOf: Int32Array | undefined;
}

export function unpackGptq(layer: GptqLayer): QuantizedMatrix {
  const { inputs, outputs, bits, groupSize, scales, groupOf } = layer;
  const numGroups = Math.ceil(inputs / groupSize);
  expectGroups(groupOf, numGroups);
  return {
    outputs,
    inputs,
    bits,
    values: unpackValues(layer),
    groupSize,
    groupOf: groupOf && irregularGroups(groupOf, groupSize),
    numGroups,
    scales: transposeScales(scales, numGroups, outputs),
    zeros: unpackZeros(layer, numGroups),
  };
}

/** Whether all zero points are the middle of the range, as in symmetric quantization. */
export function hasSymmetricZeros({ bits, version, qzeros }: Pick<GptqLayer, "bits" | "version" | "qzeros">): boolean {
  const middle = bits === 4 ? 0x8888_8888 : 0x8080_8080;
  const word = (middle - (version === 1 ? onePerValue(bits) : 0)) | 0;
  return qzeros.every((zeros) => zeros === word);
}

/** A word holds consecutive inputs of one output, the first in the lowest bits. */
function unpackValues({ inputs, outputs, bits, qweight }: GptqLayer): Uint8Array {
  const perWord = 32 / bits;
  const mask = 2 ** bits - 1;
  const values = new Uint8Array(outputs * inputs);
  for (let output = 0; output < outputs; output++) {
    for (let row = 0; row * perWord < inputs; row++) {
      const word = qweight[row * outputs + output] ?? 0;
      const at = output * inputs + row * perWord;
      for (let i = 0; i < perWord; i++) values[at + i] = (word >>> (bits * i)) & mask;
    }
  }
  return values;
}

/** Version 1 writers subtract one from whole words, including borrows, so add it back the same way. */
function unpackZeros({ outputs, bits, version, qzeros }: GptqLayer, numGroups: number): Uint16Array {
  const perWord = 32 / bits;
  const mask = 2 ** bits - 1;
  const added = version === 1 ? onePerValue(bits) : 0;
  const zeros = new Uint16Array(outputs * numGroups);
  for (let group = 0; group < numGroups; group++) {
    for (let output = 0; output < outputs; output++) {
      const word = ((qzeros[Math.floor((group * outputs + output) / perWord)] ?? 0) + added) | 0;
      zeros[output * numGroups + group] = (word >>> (bits * (output % perWord))) & mask;
    }
  }
  return zeros;
}

function onePerValue(bits: 4 | 8): number {
  return bits === 4 ? 0x1111_1111 : 0x0101_0101;
}

function expectGroups(groupOf: Int32Array | undefined, numGroups: number): void {
  const wrong = groupOf?.find((group) => group < 0 || group >= numGroups);
  if (wrong !== undefined) throw new Error(`g_idx: expected groups from 0 to ${numGroups - 1}, got ${wrong}`);
}
