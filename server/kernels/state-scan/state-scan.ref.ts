/** Reference: Mamba-2's scan of one head, in double precision. Source: Mamba-2 (Dao and Gu 2024), section 2.1 and listing 1. */
export interface StateScanRef {
  readonly x: Float32Array; // [numTokens, headDim]
  readonly time: Float32Array; // [numTokens], before softplus
  readonly decay: number;
  readonly b: Float32Array; // [numTokens, stateSize]
  readonly c: Float32Array; // [numTokens, stateSize]
  readonly skip: number;
  readonly headDim: number;
  readonly stateSize: number;
}

/** [numTokens, headDim], from a state of zeros */
export function stateScanRef({ x, time, decay, b, c, skip, headDim, stateSize }: StateScanRef): Float32Array {
  const state = new Float64Array(headDim * stateSize);
  const out = new Float32Array(x.length);
  for (const [token, raw] of time.entries()) {
    const step = Math.log1p(Math.exp(raw));
    const kept = Math.exp(step * decay);
    for (let i = 0; i < headDim; i++) {
      const value = x[token * headDim + i] ?? 0;
      let sum = 0;
      for (let j = 0; j < stateSize; j++) {
        const at = i * stateSize + j;
        state[at] = (state[at] ?? 0) * kept + step * value * (b[token * stateSize + j] ?? 0);
        sum += (state[at] ?? 0) * (c[token * stateSize + j] ?? 0);
      }
      out[token * headDim + i] = sum + skip * value;
    }
  }
  return out;
}
