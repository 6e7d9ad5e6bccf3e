/**
 * Plain reference: rotary positions in the "half" layout of Hugging Face's Llama, where element i of a head turns with
 * element i + headDim / 2. Heads beyond `numHeads` of a row are left out.
 */
export interface RopeRef {
  readonly x: Float32Array; // [numTokens, rowWidth]
  readonly positions: Int32Array; // [numTokens]
  readonly rowWidth: number;
  readonly numHeads: number;
  readonly headDim: number;
  readonly theta: number;
  readonly frequencyFactors?: Float32Array; // [headDim / 2], each divides its frequency
}

/** [numTokens, numHeads, headDim] */
export function ropeRef({ x, positions, rowWidth, numHeads, headDim, theta, frequencyFactors }: RopeRef): Float32Array {
  const half = headDim / 2;
  const out = new Float32Array(positions.length * numHeads * headDim);
  positions.forEach((position, token) => {
    for (let head = 0; head < numHeads; head++) {
      const from = token * rowWidth + head * headDim;
      const to = (token * numHeads + head) * headDim;
      for (let i = 0; i < half; i++) {
        const angle = position / theta ** ((2 * i) / headDim) / (frequencyFactors?.[i] ?? 1);
        const a = x[from + i] ?? 0;
        const b = x[from + i + half] ?? 0;
        out[to + i] = a * Math.cos(angle) - b * Math.sin(angle);
        out[to + i + half] = b * Math.cos(angle) + a * Math.sin(angle);
      }
    }
  });
  return out;
}
