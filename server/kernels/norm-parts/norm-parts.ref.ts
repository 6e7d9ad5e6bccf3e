/** Reference: each part of a row normalized by itself, in double precision. Source: RMSNorm (Zhang and Sennrich 2019). */
export interface NormPartsRef {
  readonly x: Float32Array; // [numTokens, rowWidth]
  readonly weight: Float32Array; // [sum of widths]
  readonly rowWidth: number;
  readonly widths: readonly number[];
  readonly epsilon: number;
  readonly kind: "rms" | "layer";
}

/** [numTokens, sum of widths] */
export function normPartsRef({ x, weight, rowWidth, widths, epsilon, kind }: NormPartsRef): Float32Array {
  const out: number[] = [];
  for (let row = 0; row < x.length; row += rowWidth) {
    let first = 0;
    for (const width of widths) {
      const part = [...x.subarray(row + first, row + first + width)];
      const mean = kind === "layer" ? part.reduce((sum, value) => sum + value, 0) / width : 0;
      const square = part.reduce((sum, value) => sum + (value - mean) ** 2, 0) / width;
      const from = first;
      out.push(...part.map((value, i) => ((value - mean) / Math.sqrt(square + epsilon)) * (weight[from + i] ?? 0)));
      first += width;
    }
  }
  return Float32Array.from(out);
}
