/** Numbers as the GPU kernels store them: f32, bf16, f16, fp8 e4m3. For checks; it knows no tensor. */

import { halfToNumber, numberToHalf } from "../../src/core/half.ts";

export type CudaElement = "f32" | "bf16" | "f16" | "e4m3";
export type StoredElements = Float32Array | Uint16Array | Uint8Array;

export const ELEMENT_BYTES: Readonly<Record<CudaElement, number>> = { f32: 4, bf16: 2, f16: 2, e4m3: 1 };
/** The largest finite e4m3. */
export const E4M3_MAX = 448;

const scratch: DataView = new DataView(new ArrayBuffer(4));
const E4M3_VALUES: Float32Array = Float32Array.from({ length: 256 }, (_, bits) => e4m3ToNumber(bits));

export function emptyElements(type: CudaElement, count: number): StoredElements {
  if (type === "f32") return new Float32Array(count);
  return type === "e4m3" ? new Uint8Array(count) : new Uint16Array(count);
}

export function toElements(type: CudaElement, values: Float32Array): StoredElements {
  if (type === "f32") return values.slice();
  const convert = { bf16: numberToBf16, f16: numberToHalf, e4m3: numberToE4m3 }[type];
  const out = emptyElements(type, values.length);
  for (let i = 0; i < values.length; i++) out[i] = convert(values[i] ?? 0);
  return out;
}

export function fromElements(type: CudaElement, stored: StoredElements): Float32Array {
  if (type === "f32") return Float32Array.from(stored);
  const fromE4m3 = (bits: number): number => E4M3_VALUES[bits] ?? Number.NaN;
  const convert = { bf16: bf16ToNumber, f16: halfToNumber, e4m3: fromE4m3 }[type];
  return Float32Array.from(stored, convert);
}

/** The numbers that remain after storing: what a kernel reads when it is given `values`. */
export function rounded(type: CudaElement, values: Float32Array): Float32Array {
  return fromElements(type, toElements(type, values));
}

export function bf16ToNumber(bits: number): number {
  scratch.setUint32(0, bits << 16);
  return scratch.getFloat32(0);
}

/** The nearest bf16, ties to even. */
export function numberToBf16(value: number): number {
  scratch.setFloat32(0, value);
  const bits = scratch.getUint32(0);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

export function e4m3ToNumber(bits: number): number {
  const sign = bits & 0x80 ? -1 : 1;
  const exponent = (bits >>> 3) & 0xf;
  const fraction = bits & 7;
  if (exponent === 15 && fraction === 7) return Number.NaN;
  return exponent === 0 ? sign * fraction * 2 ** -9 : sign * (1 + fraction / 8) * 2 ** (exponent - 7);
}

/** The nearest e4m3, ties to even; what is too large becomes the largest. */
export function numberToE4m3(value: number): number {
  if (Number.isNaN(value)) return 0x7f;
  const sign = value < 0 || Object.is(value, -0) ? 0x80 : 0;
  const size = Math.min(Math.abs(value), E4M3_MAX);
  const exponent = Math.max(-6, Math.floor(Math.log2(size || 1e-30)));
  const steps = roundTiesToEven(size / 2 ** (exponent - 3));
  // Sixteen steps are the next power of two: the bits carry over by themselves.
  return sign | (exponent === -6 ? steps : ((exponent + 7) << 3) + steps - 8);
}

function roundTiesToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}
