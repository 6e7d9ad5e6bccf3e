/** Turns stored floating-point elements into the type that a device tensor has. It knows no file and no tensor. */
import type { Ggml } from "../../native/ggml.ts";

export type FloatType = "f32" | "f16" | "bf16";

/** Little-endian elements in, the same number out. Equal types give back `bytes` itself. */
export function convertElements(ggml: Ggml, from: FloatType, to: FloatType, bytes: Uint8Array): Uint8Array {
  if (from === to) return bytes;
  const count = bytes.byteLength / (from === "f32" ? 4 : 2);
  const wide = from === "f32" ? bytes : new Uint8Array(count * 4);
  if (from === "bf16") ggml.base.bf16ToF32(bytes, wide, count);
  if (from === "f16") ggml.base.f16ToF32(bytes, wide, count);
  if (to === "f32") return wide;
  const narrow = new Uint8Array(count * 2);
  if (to === "bf16") ggml.base.f32ToBf16(wide, narrow, count);
  else ggml.base.f32ToF16(wide, narrow, count);
  return narrow;
}
