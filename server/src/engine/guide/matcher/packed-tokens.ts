/** The bytes of a vocabulary's tokens in two arrays, which threads can share. */

export interface PackedTokens {
  readonly bytes: Uint8Array;
  /** The first byte of each token, [number of tokens + 1]. */
  readonly starts: Int32Array;
}

/** @param tokens by id; an empty one is no token */
export function packTokens(tokens: readonly Uint8Array[]): PackedTokens {
  const starts = new Int32Array(tokens.length + 1);
  for (const [id, { length }] of tokens.entries()) starts[id + 1] = (starts[id] ?? 0) + length;
  const bytes = new Uint8Array(starts.at(-1) ?? 0);
  for (const [id, token] of tokens.entries()) bytes.set(token, starts[id]);
  return { bytes, starts };
}

/** Empty for ids without a token. */
export function bytesOfToken({ bytes, starts }: PackedTokens, id: number): Uint8Array {
  return bytes.subarray(starts[id] ?? 0, starts[id + 1] ?? 0);
}
