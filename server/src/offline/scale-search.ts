/**
 * Searches the factors by which the columns of matrices are multiplied before they are rounded: inputs that are large on
 * average get finer weights. What the factors add is taken away where the inputs come from. Pure.
 */
import { groupScale, roundingError } from "./group-rounding.ts";

/** Rows of a matrix, or a sample of them. */
export interface SampledMatrix {
  /** [numRows, numColumns] */
  readonly values: Float32Array;
}

export interface ScaleSearch {
  readonly matrices: readonly SampledMatrix[];
  readonly numColumns: number;
  readonly groupSize: number;
  /** Of each input, as it is before the search. */
  readonly meanAbs: ArrayLike<number>;
  readonly meanSquare: ArrayLike<number>;
  /** Inputs that must have the same factor have the same number; undefined: none. */
  readonly sharedBy: Int32Array | undefined;
}

export interface FoundScales {
  /** [numColumns]; all 1 where nothing is gained. */
  readonly factors: Float32Array;
  /** Sums of squares of what rounding changes in the outputs, with and without the factors. */
  readonly error: number;
  readonly plainError: number;
}

/** Exponents of the mean input. */
const NUM_EXPONENTS = 20;
const SMALLEST_FACTOR = 1e-4;

export function searchScales(search: ScaleSearch): FoundScales {
  const means = sharedMeans(search);
  const ones = new Float32Array(search.numColumns).fill(1);
  const plainError = errorWith(search, ones);
  let best: Pick<FoundScales, "factors" | "error"> = { factors: ones, error: plainError };
  for (let i = 1; i < NUM_EXPONENTS; i++) {
    const factors = factorsFor(means, i / NUM_EXPONENTS);
    const error = errorWith(search, factors);
    if (error < best.error) best = { factors, error };
  }
  return { ...best, plainError };
}

/** The largest of those that share a factor. */
function sharedMeans({ meanAbs, sharedBy, numColumns }: ScaleSearch): Float32Array {
  const means = Float32Array.from({ length: numColumns }, (_, i) => meanAbs[i] ?? 0);
  if (sharedBy === undefined) return means;
  const largest = new Map<number, number>();
  for (let i = 0; i < numColumns; i++) {
    const key = sharedBy[i] ?? 0;
    largest.set(key, Math.max(largest.get(key) ?? 0, means[i] ?? 0));
  }
  return means.map((_, i) => largest.get(sharedBy[i] ?? 0) ?? 0);
}

/** Around 1: halfway between the largest and the smallest in their logarithms. */
function factorsFor(means: Float32Array, exponent: number): Float32Array {
  const raw = means.map((mean) => Math.max(mean ** exponent, SMALLEST_FACTOR));
  let [largest, smallest] = [0, Number.POSITIVE_INFINITY];
  for (const value of raw) {
    largest = Math.max(largest, value);
    smallest = Math.min(smallest, value);
  }
  const middle = Math.sqrt(largest * smallest);
  return raw.map((value) => value / middle);
}

function errorWith({ matrices, numColumns, groupSize, meanSquare }: ScaleSearch, factors: Float32Array): number {
  const importance = Float32Array.from(factors, (factor, i) => (meanSquare[i] ?? 0) / factor ** 2);
  const row = new Float32Array(numColumns);
  let sum = 0;
  for (const { values } of matrices) {
    for (let start = 0; start < values.length; start += numColumns) {
      for (let i = 0; i < numColumns; i++) row[i] = (values[start + i] ?? 0) * (factors[i] ?? 1);
      for (let from = 0; from < numColumns; from += groupSize) {
        const group = row.subarray(from, from + groupSize);
        const scale = groupScale(group, undefined);
        if (scale > 0) sum += roundingError(group, scale, importance.subarray(from, from + groupSize));
      }
    }
  }
  return sum;
}
