/** Numbers that positions add to the scores of attention. Source: He et al. 2021 (DeBERTa), equation 4. */
import { type PositionBuckets, tableRow } from "./position-buckets.ts";

export interface DisentangledCase {
  readonly q: Float32Array; // [numTokens, numHeads, headDim]
  readonly keys: Float32Array; // [numTokens, numHeads, headDim]
  readonly positionQueries: Float32Array; // [2 * span, numHeads, headDim]
  readonly positionKeys: Float32Array; // [2 * span, numHeads, headDim]
  readonly numHeads: number;
  readonly headDim: number;
  readonly scale: number;
  readonly buckets: PositionBuckets;
}

/** [numHeads, numTokens, numTokens] */
export function disentangledBias(given: DisentangledCase): Float32Array {
  const { q, keys, positionQueries, positionKeys, numHeads, headDim, scale, buckets } = given;
  const numTokens = q.length / (numHeads * headDim);
  const bias = new Float32Array(numHeads * numTokens * numTokens);
  for (let head = 0; head < numHeads; head++) {
    for (let i = 0; i < numTokens; i++) {
      for (let j = 0; j < numTokens; j++) {
        const row = tableRow(i - j, buckets);
        let sum = 0;
        for (let d = 0; d < headDim; d++) {
          const of = (values: Float32Array, at: number): number => values[(at * numHeads + head) * headDim + d] ?? 0;
          sum += of(q, i) * of(positionKeys, row) + of(keys, j) * of(positionQueries, row);
        }
        bias[(head * numTokens + i) * numTokens + j] = sum * scale;
      }
    }
  }
  return bias;
}
