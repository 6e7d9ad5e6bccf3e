/** Size of the paged KV cache of a decoder, on every device. Pure. */
import type { DecoderConfig, DecoderLayer, LayerHeads } from "./decoder-config.ts";

type Heads = Pick<DecoderConfig, "numKvHeads" | "headDim">;

/** Bytes of the keys and values of one token in all layers that attend. */
export function kvBytesPerToken(config: Heads & Pick<DecoderConfig, "layers">, elementBytes: number): number {
  const cached = config.layers.filter(hasCache);
  const numbers = cached.map((layer) => layerHeads(config, layer)).reduce((sum, { width }) => sum + width, 0);
  return 2 * numbers * elementBytes;
}

/** A layer with keys and values of its own. */
export function hasCache({ isRecurrent, kvSource }: DecoderLayer): boolean {
  return isRecurrent !== true && kvSource === undefined;
}

/** Heads of the keys and values that a layer reads, and the numbers of a token in each. */
export function layerHeads(
  { numKvHeads, headDim }: Heads,
  layer: Pick<DecoderLayer, "heads"> | undefined,
): LayerHeads & { readonly width: number } {
  const heads = layer?.heads ?? { numKvHeads, headDim };
  return { ...heads, width: heads.numKvHeads * heads.headDim };
}
