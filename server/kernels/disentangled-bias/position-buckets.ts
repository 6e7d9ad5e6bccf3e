/**
 * Buckets of distances for disentangled attention: small distances have one each, larger ones share them by their logarithm, with the
 * sign of the distance. Pure. Source: He et al. 2021 (DeBERTa-v3); transformers, modeling_deberta_v2.py, `make_log_bucket_position`.
 */

export interface PositionBuckets {
  /** Buckets on each side; the table has twice as many rows. */
  readonly span: number;
  /** Distances from here on are in the last bucket; undefined: each distance has a bucket. */
  readonly maxDistance: number | undefined;
}

/** Row of the table for a query that stands `distance` behind the key. */
export function tableRow(distance: number, buckets: PositionBuckets): number {
  const { span } = buckets;
  return Math.min(2 * span - 1, Math.max(0, bucketOf(distance, buckets) + span));
}

function bucketOf(distance: number, { span, maxDistance }: PositionBuckets): number {
  const middle = Math.floor(span / 2);
  const size = Math.abs(distance);
  if (maxDistance === undefined || size <= middle) return distance;
  // In single precision, as the reference computes it.
  const share = Math.fround(
    Math.fround(Math.log(Math.fround(size / middle))) / Math.fround(Math.log(Math.fround((maxDistance - 1) / middle))),
  );
  return Math.sign(distance) * (Math.ceil(Math.fround(share * (middle - 1))) + middle);
}
