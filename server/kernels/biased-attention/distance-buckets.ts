/**
 * Buckets of distances between keys and queries: small distances have one each, larger ones share them by their logarithm. Pure.
 * Source: Raffel et al. 2020 (T5), section 2.1; transformers, modeling_t5.py, `_relative_position_bucket`.
 */

export interface BucketRules {
  readonly numBuckets: number;
  readonly maxDistance: number;
  /** Keys behind a query have half of the buckets; absent: the query sees none. */
  readonly isCausal: boolean;
}

/** `relative`: position of the key less that of the query. */
export function distanceBucket(relative: number, { numBuckets, maxDistance, isCausal }: BucketRules): number {
  const count = isCausal ? numBuckets : Math.floor(numBuckets / 2);
  const first = !isCausal && relative > 0 ? count : 0;
  const distance = isCausal ? Math.max(0, -relative) : Math.abs(relative);
  const numExact = Math.floor(count / 2);
  if (distance < numExact) return first + distance;
  // In single precision, as the reference computes it.
  const share = Math.fround(
    Math.fround(Math.log(Math.fround(distance / numExact))) / Math.fround(Math.log(maxDistance / numExact)),
  );
  return first + Math.min(count - 1, numExact + Math.trunc(Math.fround(share * (count - numExact))));
}

/** [numQueries, numKeys]; the last query stands at the last key. */
export function bucketsOf(numQueries: number, numKeys: number, rules: BucketRules): Int32Array {
  const past = numKeys - numQueries;
  const byDistance = Int32Array.from({ length: 2 * numKeys - 1 }, (_, i) => distanceBucket(i - numKeys + 1, rules));
  const buckets = new Int32Array(numQueries * numKeys);
  for (let i = 0; i < numQueries; i++) {
    for (let key = 0; key < numKeys; key++) {
      buckets[i * numKeys + key] = byDistance[key - past - i + numKeys - 1] ?? 0;
    }
  }
  return buckets;
}
