/**
 * Reference: each row divided by its root mean square, then scaled per column. Source: RMSNorm (Zhang and Sennrich
 * 2019).
 */
export interface RmsNormRef {
  readonly x: Float32Array; // [numRows, width]
  readonly weight: Float32Array; // [width]
  readonly epsilon: number;
}

export function rmsNormRef({ x, weight, epsilon }: RmsNormRef): Float32Array {
  const width = weight.length;
  const out = new Float32Array(x.length);
  for (let row = 0; row < x.length; row += width) {
    let sum = 0;
    for (let i = row; i < row + width; i++) sum += (x[i] ?? 0) ** 2;
    const scale = 1 / Math.sqrt(sum / width + epsilon);
    for (let i = 0; i < width; i++) out[row + i] = (x[row + i] ?? 0) * scale * (weight[i] ?? 0);
  }
  return out;
}
