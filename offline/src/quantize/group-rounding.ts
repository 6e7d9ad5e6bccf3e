/**
 * Rounds groups of weights to INT4 with one scale each. With input importances, the scale is searched: a smaller one
 * clips the largest weights and represents the others more finely (AWQ's clipping). Pure.
 */
import { fp16ToNumber, numberToFp16 } from "@nereid/server/core/fp16";

const LARGEST_LEVEL = 7;
const SMALLEST_LEVEL = -8;
/**
 * Numbers this large have no fraction bits: adding and subtracting it rounds to the nearest integer, faster than
 * Math.round.
 */
const ROUNDING: number = 1.5 * 2 ** 52;
/** Candidate scales, relative to the one without clipping. */
const SHARES: readonly number[] = [1, 0.95, 0.9, 0.875, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6];

/** Without `importance`: the scale without clipping, rounded to FP16. */
export function groupScale(values: Float32Array, importance: Float32Array | undefined): number {
  let largest = 0;
  for (let i = 0; i < values.length; i++) largest = Math.max(largest, Math.abs(values[i] ?? 0));
  const widest = asHalf(largest / LARGEST_LEVEL);
  if (importance === undefined || widest === 0) return widest;
  let best = widest;
  let least = Number.POSITIVE_INFINITY;
  for (const share of SHARES) {
    const scale = asHalf((largest / LARGEST_LEVEL) * share);
    const error = roundingError(values, scale, importance);
    if (error >= least) continue;
    least = error;
    best = scale;
  }
  return best;
}

export function levelOf(value: number, scale: number): number {
  if (scale === 0) return 0;
  return Math.max(SMALLEST_LEVEL, Math.min(LARGEST_LEVEL, Math.round(value / scale)));
}

/** Sum of squared rounding errors, weighted by input importance. */
export function roundingError(values: Float32Array, scale: number, importance: Float32Array): number {
  if (scale === 0) return Number.POSITIVE_INFINITY;
  const inverse = 1 / scale;
  let sum = 0;
  // Runs for each weight and candidate scale: some 10^9 times for a large model.
  for (let i = 0; i < values.length; i++) {
    const value = values[i] ?? 0;
    let level = value * inverse + ROUNDING - ROUNDING;
    if (level > LARGEST_LEVEL) level = LARGEST_LEVEL;
    else if (level < SMALLEST_LEVEL) level = SMALLEST_LEVEL;
    const off = value - level * scale;
    sum += off * off * (importance[i] ?? 0);
  }
  return sum;
}

function asHalf(value: number): number {
  return fp16ToNumber(numberToFp16(value));
}
