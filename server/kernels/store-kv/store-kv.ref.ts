/**
 * Reference: columns of each token's row, written to the token's slot of the cache. Source: PagedAttention (Kwon et al.
 * 2023).
 */
export interface StoreKvRef {
  readonly cache: Float32Array; // [numSlots, width]
  readonly source: Float32Array; // [numTokens, sourceWidth]
  readonly slots: Int32Array; // [numTokens]
  readonly width: number;
  readonly sourceWidth: number;
  /** First column of `source` that is stored. */
  readonly column: number;
}

/** The cache afterwards. */
export function storeKvRef({ cache, source, slots, width, sourceWidth, column }: StoreKvRef): Float32Array {
  const out = cache.slice();
  slots.forEach((slot, token) => {
    const from = token * sourceWidth + column;
    out.set(source.subarray(from, from + width), slot * width);
  });
  return out;
}
