/** Reference: the gated delta rule of one head, in double precision. Source: Gated DeltaNet (Yang et al. 2024), equation 10. */
export interface DeltaNetRef {
  readonly q: Float32Array; // [numTokens, size], of length 1
  readonly k: Float32Array; // [numTokens, size], of length 1
  readonly v: Float32Array; // [numTokens, size]
  /** Logarithm of what remains of the state. */
  readonly logDecay: Float32Array; // [numTokens]
  readonly beta: Float32Array; // [numTokens]
  readonly size: number;
}

/** [numTokens, size], from a state of zeros */
export function deltaNetRef({ q, k, v, logDecay, beta, size }: DeltaNetRef): Float32Array {
  const state = Array.from({ length: size }, () => new Array<number>(size).fill(0)); // [key element][value element]
  const out = new Float32Array(v.length);
  const at = (values: Float32Array, token: number, i: number): number => values[token * size + i] ?? 0;
  for (let token = 0; token < logDecay.length; token++) {
    const kept = Math.exp(logDecay[token] ?? 0);
    for (const row of state) for (const [j, value] of row.entries()) row[j] = value * kept;
    for (let j = 0; j < size; j++) {
      const known = state.reduce((sum, row, i) => sum + (row[j] ?? 0) * at(k, token, i), 0);
      const delta = (at(v, token, j) - known) * (beta[token] ?? 0);
      let sum = 0;
      for (const [i, row] of state.entries()) {
        row[j] = (row[j] ?? 0) + at(k, token, i) * delta;
        sum += (row[j] ?? 0) * at(q, token, i);
      }
      out[token * size + j] = sum / Math.sqrt(size);
    }
  }
  return out;
}
