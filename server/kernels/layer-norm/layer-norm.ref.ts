/**
 * Reference: each row brought to mean 0 and variance 1, then scaled and shifted per column. Source: LayerNorm (Ba et
 * al. 2016).
 */
export interface LayerNormRef {
  readonly x: Float32Array; // [numRows, width]
  readonly weight: Float32Array; // [width]
  readonly bias?: Float32Array; // [width]
  readonly epsilon: number;
}

export function layerNormRef({ x, weight, bias, epsilon }: LayerNormRef): Float32Array {
  const width = weight.length;
  const out = new Float32Array(x.length);
  for (let row = 0; row < x.length; row += width) {
    let mean = 0;
    for (let i = row; i < row + width; i++) mean += (x[i] ?? 0) / width;
    let variance = 0;
    for (let i = row; i < row + width; i++) variance += ((x[i] ?? 0) - mean) ** 2 / width;
    const scale = 1 / Math.sqrt(variance + epsilon);
    for (let i = 0; i < width; i++) {
      out[row + i] = ((x[row + i] ?? 0) - mean) * scale * (weight[i] ?? 0) + (bias?.[i] ?? 0);
    }
  }
  return out;
}
