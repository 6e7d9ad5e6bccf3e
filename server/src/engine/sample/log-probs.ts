/** Log-probabilities under the model's own distribution: no temperature, no penalty. Rows in, numbers out. */
import { argmax } from "./sampler.ts";

/** Log of the sum of exponentials; a logit minus this is its log-probability. NaN counts as impossible. */
export function logSumExp(row: Float32Array): number {
  const best = row[argmax(row)] ?? 0;
  if (best === Number.POSITIVE_INFINITY) return best;
  let sum = 0;
  for (let i = 0; i < row.length; i++) {
    const weight = Math.exp((row[i] ?? 0) - best);
    if (weight > 0) sum += weight;
  }
  return best + Math.log(sum);
}

export function logProb(row: Float32Array, token: number): number {
  const score = row[token] ?? Number.NEGATIVE_INFINITY;
  return score === Number.POSITIVE_INFINITY ? 0 : score - logSumExp(row);
}

/** `topOf` with log-probabilities for values. */
export function topLogProbsOf(
  row: Float32Array,
  count: number,
  ids: Int32Array,
  values: Float32Array,
  at: number,
): void {
  const mass = logSumExp(row);
  topOf(row, count, ids, values, at);
  for (let i = at; i < at + count; i++) {
    const value = values[i] ?? 0;
    values[i] = value === Number.POSITIVE_INFINITY ? 0 : value - mass;
  }
}

/**
 * Writes the `count` largest of `row` from `at` on, in descending order, ties by the smaller id. A shorter row is
 * padded with ids of -1.
 */
export function topOf(row: Float32Array, count: number, ids: Int32Array, values: Float32Array, at: number): void {
  ids.fill(-1, at, at + count);
  values.fill(Number.NEGATIVE_INFINITY, at, at + count);
  const last = at + count - 1;
  for (let id = 0; id < row.length; id++) {
    const value = row[id] ?? Number.NaN;
    if (!(value > (values[last] ?? 0))) continue;
    let place = last;
    for (; place > at && value > (values[place - 1] ?? 0); place--) {
      values[place] = values[place - 1] ?? 0;
      ids[place] = ids[place - 1] ?? 0;
    }
    values[place] = value;
    ids[place] = id;
  }
}
