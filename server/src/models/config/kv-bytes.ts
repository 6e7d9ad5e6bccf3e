/** Size of the paged KV cache of a decoder, on every device. Pure. */
import type { DecoderConfig } from "./decoder-config.ts";

/** Bytes of the keys and values of one token in all layers. */
export function kvBytesPerToken(
  { numLayers, numKvHeads, headDim }: Pick<DecoderConfig, "numLayers" | "numKvHeads" | "headDim">,
  elementBytes: number,
): number {
  return 2 * numLayers * numKvHeads * headDim * elementBytes;
}
