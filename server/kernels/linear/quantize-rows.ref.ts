/**
 * Reference of weight-only quantization, per block of 32: the stored bytes and their values.
 * q8_0: a scale and 32 signed bytes. q4_1: a scale, a minimum and 32 nibbles. q4_0: a scale and 32 nibbles less 8. Byte
 * i of the nibbles holds element i in its lower half and element i + 16 in its upper half.
 * Source: ggml-common.h, block_q8_0, block_q4_0 and block_q4_1.
 */
import { fp16ToNumber, numberToFp16 } from "../../src/core/fp16.ts";

export type QuantizedType = "q8_0" | "q4_0" | "q4_1";

const BLOCK = 32;
const HALF_BLOCK = 16;
export const BLOCK_BYTES: Readonly<Record<QuantizedType, number>> = { q8_0: 34, q4_0: 18, q4_1: 20 };

/** Rows follow each other, so that blocks need not know them: the length is a multiple of 32. */
export function quantizeRowsRef(type: QuantizedType, values: Float32Array): Uint8Array {
  const out = new Uint8Array((values.length / BLOCK) * BLOCK_BYTES[type]);
  for (let i = 0; i * BLOCK < values.length; i++) {
    const block = values.subarray(i * BLOCK, (i + 1) * BLOCK);
    const bytes = out.subarray(i * BLOCK_BYTES[type], (i + 1) * BLOCK_BYTES[type]);
    if (type === "q8_0") quantizeQ8(block, bytes);
    else if (type === "q4_1") quantizeQ41(block, bytes);
    else quantizeQ40(block, bytes);
  }
  return out;
}

export function dequantizeRowsRef(type: QuantizedType, bytes: Uint8Array): Float32Array {
  const size = BLOCK_BYTES[type];
  const out = new Float32Array((bytes.length / size) * BLOCK);
  for (let i = 0; i * size < bytes.length; i++) {
    const view = new DataView(bytes.buffer, bytes.byteOffset + i * size, size);
    const scale = fp16ToNumber(view.getUint16(0, true));
    const values = out.subarray(i * BLOCK, (i + 1) * BLOCK);
    for (let j = 0; j < BLOCK; j++) values[j] = scale * levelAt(type, view, j) + minimumOf(type, view);
  }
  return out;
}

function quantizeQ8(block: Float32Array, out: Uint8Array): void {
  const scale = Math.fround(block.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0) / 127);
  const inverse = scale === 0 ? 0 : Math.fround(1 / scale);
  writeHalf(out, 0, scale);
  for (const [i, value] of block.entries()) out[2 + i] = roundAwayFromZero(Math.fround(value * inverse)) & 0xff;
}

/** Zero lies among the levels: the extreme of larger magnitude takes the level that has no opposite. */
function quantizeQ40(block: Float32Array, out: Uint8Array): void {
  const extreme = block.reduce((most, value) => (Math.abs(value) > Math.abs(most) ? value : most), 0);
  const scale = Math.fround(extreme / -8);
  const inverse = scale === 0 ? 0 : Math.fround(1 / scale);
  writeHalf(out, 0, scale);
  writeNibbles(out.subarray(2), (i) =>
    Math.min(15, Math.trunc(Math.fround(Math.fround((block[i] ?? 0) * inverse) + 8.5))),
  );
}

function quantizeQ41(block: Float32Array, out: Uint8Array): void {
  const minimum = Math.min(...block);
  const scale = Math.fround(Math.fround(Math.max(...block) - minimum) / 15);
  const inverse = scale === 0 ? 0 : Math.fround(1 / scale);
  writeHalf(out, 0, scale);
  writeHalf(out, 2, minimum);
  writeNibbles(out.subarray(4), (i) => {
    const steps = Math.fround(Math.fround((block[i] ?? 0) - minimum) * inverse);
    return Math.min(15, Math.trunc(Math.fround(steps + 0.5)));
  });
}

function writeNibbles(out: Uint8Array, levelOf: (index: number) => number): void {
  for (let i = 0; i < HALF_BLOCK; i++) out[i] = levelOf(i) | (levelOf(i + HALF_BLOCK) << 4);
}

function levelAt(type: QuantizedType, view: DataView, index: number): number {
  if (type === "q8_0") return view.getInt8(2 + index);
  return type === "q4_1" ? nibbleAt(view, 4, index) : nibbleAt(view, 2, index) - 8;
}

function minimumOf(type: QuantizedType, view: DataView): number {
  return type === "q4_1" ? fp16ToNumber(view.getUint16(2, true)) : 0;
}

function nibbleAt(view: DataView, offset: number, index: number): number {
  const byte = view.getUint8(offset + (index % HALF_BLOCK));
  return index < HALF_BLOCK ? byte & 15 : byte >>> 4;
}

function writeHalf(out: Uint8Array, offset: number, value: number): void {
  const bits = numberToFp16(value);
  out[offset] = bits & 0xff;
  out[offset + 1] = bits >>> 8;
}

function roundAwayFromZero(value: number): number {
  return Math.sign(value) * Math.floor(Math.abs(value) + 0.5);
}
