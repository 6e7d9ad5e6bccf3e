/** Floats of the files as floats of the device. Pure: bytes in, bytes out. */
import { narrowToBf16, widenBf16 } from "../../core/bf16.ts";
import { fp16ToNumber } from "../../core/fp16.ts";

export type StoredFloat = "F32" | "F16" | "BF16";
export type DeviceFloat = "f32" | "bf16";

export const STORED_BYTES: Readonly<Record<StoredFloat, number>> = { F32: 4, F16: 2, BF16: 2 };
const DEVICE_BYTES: Readonly<Record<DeviceFloat, number>> = { f32: 4, bf16: 2 };

/** Whether the bytes are the same in both. */
export function isSameFloat(from: StoredFloat, to: DeviceFloat): boolean {
  return (from === "F32" && to === "f32") || (from === "BF16" && to === "bf16");
}

/** Fills `into` with all of `stored`. Both begin at multiples of four bytes. */
export function convertFloats(from: StoredFloat, stored: Uint8Array, to: DeviceFloat, into: Uint8Array): void {
  const count = stored.byteLength / STORED_BYTES[from];
  if (into.byteLength !== count * DEVICE_BYTES[to]) throw new Error(`expected room for ${count} numbers of ${to}`);
  const values = to === "f32" ? new Float32Array(into.buffer, into.byteOffset, count) : new Float32Array(count);
  widen(from, stored, values);
  if (to === "bf16") narrowToBf16(values, new Uint16Array(into.buffer, into.byteOffset, count));
}

/** [rows, columns] as [columns, rows]. */
export function transposeFloats(values: Uint8Array, elementBytes: number, rows: number, columns: number): Uint8Array {
  const wide = elementBytes === 4;
  const from = wide
    ? new Uint32Array(values.buffer, values.byteOffset, rows * columns)
    : new Uint16Array(values.buffer, values.byteOffset, rows * columns);
  const to = wide ? new Uint32Array(rows * columns) : new Uint16Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) to[column * rows + row] = from[row * columns + column] ?? 0;
  }
  return new Uint8Array(to.buffer);
}

function widen(from: StoredFloat, stored: Uint8Array, into: Float32Array): void {
  const { buffer, byteOffset } = stored;
  const { length } = into;
  if (from === "F32") {
    into.set(new Float32Array(buffer, byteOffset, length));
    return;
  }
  const halves = new Uint16Array(buffer, byteOffset, length);
  if (from === "F16") {
    for (let i = 0; i < length; i++) into[i] = fp16ToNumber(halves[i] ?? 0);
    return;
  }
  widenBf16(halves, into);
}
