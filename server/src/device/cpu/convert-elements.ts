/** Turns stored elements into the type that a device tensor has. It knows no file and no tensor. */

import type { GgmlBlockType } from "../../native/ggml/functions.ts";
import { GGML_BLOCKS, GGML_TYPES, type Ggml } from "../../native/ggml/ggml.ts";

export type FloatType = "f32" | "f16" | "bf16";
/** Storage types of weights, in files and in memory. */
export type WeightType = FloatType | GgmlBlockType;

/** Little-endian elements in, the same number out. Equal types give back `bytes` itself. */
export function convertElements(ggml: Ggml, from: WeightType, to: WeightType, bytes: Uint8Array): Uint8Array {
  if (from === to) return bytes;
  const { numElements, numBytes } = GGML_BLOCKS[from];
  const numBlocks = bytes.byteLength / numBytes;
  const count = numBlocks * numElements;
  if (!Number.isInteger(numBlocks) || count % GGML_BLOCKS[to].numElements !== 0) {
    throw new Error(`expected whole blocks of ${from} and ${to}, got ${bytes.byteLength} bytes`);
  }
  return narrow(ggml, to, widen(ggml, from, bytes, count), count);
}

function widen(ggml: Ggml, from: WeightType, bytes: Uint8Array, count: number): Uint8Array {
  if (from === "f32") return bytes;
  const wide = new Uint8Array(count * 4);
  if (from === "bf16") ggml.base.bf16ToF32(bytes, wide, count);
  else if (from === "f16") ggml.base.f16ToF32(bytes, wide, count);
  else ggml.dequantize[from](bytes, wide, count);
  return wide;
}

function narrow(ggml: Ggml, to: WeightType, wide: Uint8Array, count: number): Uint8Array {
  if (to === "f32") return wide;
  const { numElements, numBytes } = GGML_BLOCKS[to];
  const out = new Uint8Array((count / numElements) * numBytes);
  if (to === "bf16") ggml.base.f32ToBf16(wide, out, count);
  else if (to === "f16") ggml.base.f32ToF16(wide, out, count);
  // Blocks know no rows, so that all of them count as one.
  else ggml.base.quantizeChunk(GGML_TYPES[to], wide, out, 0, 1, count, null);
  return out;
}
