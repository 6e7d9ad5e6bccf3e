/** Size of the paged KV cache of a decoder, on every device. Pure. */
import type { DecoderConfig } from "./decoder-config.ts";

/** Bytes of the keys and values of one token in all layers that attend. */
export function kvBytesPerToken(
  { layers, numKvHeads, headDim }: Pick<DecoderConfig, "layers" | "numKvHeads" | "headDim">,
  elementBytes: number,
): number {
  return 2 * numCachedLayers(layers) * numKvHeads * headDim * elementBytes;
}

/** Layers with keys and values. */
export function numCachedLayers(layers: DecoderConfig["layers"]): number {
  return layers.filter(({ isRecurrent }) => isRecurrent !== true).length;
}
