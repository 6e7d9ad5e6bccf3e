/**
 * Reference: each of the first `numHeads` heads of a row divided by its own root mean square, then scaled. Source:
 * RMSNorm (Zhang and Sennrich 2019).
 */
export interface RmsNormHeadsRef {
  readonly x: Float32Array; // [numTokens, rowWidth]
  readonly weight: Float32Array; // [numHeads, headDim]
  readonly rowWidth: number;
  readonly numHeads: number;
  readonly headDim: number;
  readonly epsilon: number;
}

/** [numTokens, numHeads * headDim] */
export function rmsNormHeadsRef({ x, weight, rowWidth, numHeads, headDim, epsilon }: RmsNormHeadsRef): Float32Array {
  const numTokens = x.length / rowWidth;
  const width = numHeads * headDim;
  const out = new Float32Array(numTokens * width);
  for (let token = 0; token < numTokens; token++) {
    for (let head = 0; head < numHeads; head++) {
      const row = x.subarray(token * rowWidth + head * headDim).subarray(0, headDim);
      const scale = 1 / Math.sqrt(row.reduce((sum, value) => sum + value * value, 0) / headDim + epsilon);
      for (let i = 0; i < headDim; i++) {
        out[token * width + head * headDim + i] = (row[i] ?? 0) * scale * (weight[head * headDim + i] ?? 0);
      }
    }
  }
  return out;
}
