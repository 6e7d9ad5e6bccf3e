/**
 * Attention whose scores get a number for each pair of query and key. Source: Raffel et al. 2020 (T5), section 2.1; its
 * buckets are those of mesh_tensorflow, `_relative_position_bucket`.
 */

export interface BiasedAttentionCase {
  readonly q: Float32Array; // [numQueries, numHeads, headDim]
  readonly keys: Float32Array; // [numKeys, numKvHeads, headDim]
  readonly values: Float32Array; // [numKeys, numKvHeads, headDim]
  readonly bias: Float32Array; // [numHeads, numQueries, numKeys]
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  readonly scale: number;
  /** The last query stands at the last key, and none sees keys behind it. */
  readonly isCausal: boolean;
}

/** [numQueries, numHeads * headDim] */
export function biasedAttention(given: BiasedAttentionCase): Float32Array {
  const { q, keys, values, bias, numHeads, numKvHeads, headDim, scale, isCausal } = given;
  const numQueries = q.length / (numHeads * headDim);
  const numKeys = keys.length / (numKvHeads * headDim);
  const out = new Float32Array(q.length);
  for (let i = 0; i < numQueries; i++) {
    for (let head = 0; head < numHeads; head++) {
      const at = (i * numHeads + head) * headDim;
      const kvHead = Math.floor((head * numKvHeads) / numHeads);
      const keyAt = (key: number): number => (key * numKvHeads + kvHead) * headDim;
      const end = isCausal ? numKeys - numQueries + i + 1 : numKeys;
      const scores = Array.from({ length: end }, (_, key) => {
        let dot = 0;
        for (let d = 0; d < headDim; d++) dot += (q[at + d] ?? 0) * (keys[keyAt(key) + d] ?? 0);
        return dot * scale + (bias[(head * numQueries + i) * numKeys + key] ?? 0);
      });
      const most = Math.max(...scores);
      const shares = scores.map((score) => Math.exp(score - most));
      const sum = shares.reduce((total, share) => total + share, 0);
      for (const [key, share] of shares.entries()) {
        for (let d = 0; d < headDim; d++) {
          out[at + d] = (out[at + d] ?? 0) + (share / sum) * (values[keyAt(key) + d] ?? 0);
        }
      }
    }
  }
  return out;
}
