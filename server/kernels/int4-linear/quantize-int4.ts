/**
 * Quantizes weights to INT4 group by group: round to nearest, with a zero of 8 or with the group's own. Source:
 * round-to-nearest baseline of GPTQ (Frantar et al. 2022).
 */
import { fp16ToNumber, numberToFp16 } from "../../src/core/fp16.ts";
import type { Int4Matrix } from "./pack-int4.ts";

export interface Int4Options {
  readonly groupSize: number;
  /** Whether each group has a zero of its own, so that its whole range is used. */
  readonly hasZeros: boolean;
}

/** `weight`: [outputs, inputs] */
export function quantizeInt4(weight: Float32Array, inputs: number, options: Int4Options): Int4Matrix {
  const { groupSize, hasZeros } = options;
  const outputs = weight.length / inputs;
  const numGroups = weight.length / groupSize;
  const codes = new Uint8Array(weight.length / 2);
  const scales = new Float32Array(numGroups);
  const zeros = hasZeros ? new Uint8Array(numGroups) : undefined;
  for (let group = 0; group < numGroups; group++) {
    const values = weight.subarray(group * groupSize, (group + 1) * groupSize);
    const { scale, zero } = hasZeros ? rangeOf(values) : { scale: symmetricScale(values), zero: 8 };
    scales[group] = scale;
    if (zeros !== undefined) zeros[group] = zero;
    for (let i = 0; i < groupSize; i++) {
      const code = Math.min(15, Math.max(0, Math.round((values[i] ?? 0) / scale) + zero));
      const at = (group * groupSize + i) >> 1;
      codes[at] = (codes[at] ?? 0) | (code << (4 * (i % 2)));
    }
  }
  return { outputs, inputs, groupSize, codes, scales, zeros };
}

/** [outputs, inputs] */
export function dequantizeInt4({ codes, scales, zeros, groupSize }: Int4Matrix): Float32Array {
  const out = new Float32Array(codes.length * 2);
  for (let i = 0; i < out.length; i++) {
    const group = Math.floor(i / groupSize);
    const code = ((codes[i >> 1] ?? 0) >> (4 * (i % 2))) & 15;
    out[i] = (code - (zeros?.[group] ?? 8)) * (scales[group] ?? 0);
  }
  return out;
}

function symmetricScale(values: Float32Array): number {
  let largest = 0;
  for (const value of values) largest = Math.max(largest, Math.abs(value));
  return asStored(largest / 7);
}

function rangeOf(values: Float32Array): { readonly scale: number; readonly zero: number } {
  let lowest = 0;
  let highest = 0;
  for (const value of values) {
    lowest = Math.min(lowest, value);
    highest = Math.max(highest, value);
  }
  const scale = asStored((highest - lowest) / 15);
  return { scale, zero: Math.min(15, Math.max(0, Math.round(-lowest / scale))) };
}

/** Scales are kept in half precision; codes are chosen for what that leaves. A group of zeros has any scale. */
function asStored(scale: number): number {
  const stored = fp16ToNumber(numberToFp16(scale));
  return stored === 0 ? 1 : stored;
}
