/**
 * Reads a float tensor or a part of it widened to FP32, for scales and other small tensors. BF16 is the upper half of an IEEE 754
 * binary32 value.
 */
import { widenBf16 } from "../../core/bf16.ts";
import { widenFp16 } from "../../core/fp16.ts";
import { rowBytes, type TensorSource } from "./tensor-source.ts";

/** `count` elements from `first` on; absent: all. The caller has checked that the type is F32, F16 or BF16. */
export async function readFloats(source: TensorSource, name: string, first = 0, count?: number): Promise<Float32Array> {
  const { dtype, byteLength } = source.tensors.get(name) ?? { dtype: "F32", byteLength: 0 };
  const bytes = new Uint8Array(count === undefined ? byteLength : rowBytes(dtype, count));
  await source.read(name, bytes, rowBytes(dtype, first));
  if (dtype === "F32") return new Float32Array(bytes.buffer);
  const words = new Uint16Array(bytes.buffer);
  return dtype === "F16" ? widenFp16(words) : widenBf16(words);
}
