/**
 * Reference: RoPE in the "half" layout of Hugging Face's Llama, where element i of a head rotates with element i +
 * numDims / 2. Heads beyond `numHeads` of a row are left out. Source: RoPE (Su et al. 2021).
 */
export interface RopeRef {
  readonly x: Float32Array; // [numTokens, rowWidth]
  readonly positions: Int32Array; // [numTokens]; with sections [4 * numTokens], one list after the other
  /** Frequencies that rotate by the first, second and third position of a token. */
  readonly sections?: readonly [number, number, number] | undefined;
  readonly rowWidth: number;
  readonly numHeads: number;
  readonly headDim: number;
  /** Elements of a head that rotate, from its first on; the others are copied. */
  readonly numDims: number;
  readonly theta: number;
  readonly frequencyFactors?: Float32Array; // [numDims / 2], each divides its frequency
  /** Multiplies what has rotated. */
  readonly magnitude: number;
}

/** [numTokens, numHeads, headDim] */
export function ropeRef(args: RopeRef): Float32Array {
  const { x, positions, sections, rowWidth, numHeads, headDim, numDims, theta, frequencyFactors, magnitude } = args;
  const half = numDims / 2;
  const numTokens = x.length / rowWidth;
  const out = new Float32Array(numTokens * numHeads * headDim);
  for (let token = 0; token < numTokens; token++) {
    for (let head = 0; head < numHeads; head++) {
      const from = token * rowWidth + head * headDim;
      const to = (token * numHeads + head) * headDim;
      out.set(x.subarray(from, from + headDim), to);
      for (let i = 0; i < half; i++) {
        const position = positions[axisOf(i, sections) * numTokens + token] ?? 0;
        const angle = position / theta ** ((2 * i) / numDims) / (frequencyFactors?.[i] ?? 1);
        const a = x[from + i] ?? 0;
        const b = x[from + i + half] ?? 0;
        out[to + i] = magnitude * (a * Math.cos(angle) - b * Math.sin(angle));
        out[to + i + half] = magnitude * (b * Math.cos(angle) + a * Math.sin(angle));
      }
    }
  }
  return out;
}

function axisOf(frequency: number, [first, second]: readonly [number, number, number] = [Infinity, 0, 0]): number {
  if (frequency < first) return 0;
  return frequency < first + second ? 1 : 2;
}
