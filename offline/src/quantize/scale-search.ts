/**
 * Searches factors for the columns of matrices before rounding, so that inputs with large means get finer weights. The
 * producers of the inputs absorb the inverse factors. Source: AWQ (Lin et al. 2023), SmoothQuant (Xiao et al. 2022).
 * Pure.
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
  /** Mean magnitude of each input before scaling. */
  readonly meanAbs: ArrayLike<number>;
  readonly meanSquare: ArrayLike<number>;
  /** Inputs with the same number share a factor; undefined: none do. */
  readonly sharedBy: Int32Array | undefined;
}

export interface FoundScales {
  /** [numColumns]; all 1 when nothing is gained. */
  readonly factors: Float32Array;
  /** Sums of squared output errors, with and without the factors. */
  readonly error: number;
  readonly plainError: number;
}

/** Candidate exponents of the mean input. */
const NUM_EXPONENTS = 20;
const SMALLEST_FACTOR = 1e-4;

export function searchScales(search: ScaleSearch): FoundScales {
  const { meanAbs, numColumns, sharedBy } = search;
  const means = largestOfShared(
    Float32Array.from({ length: numColumns }, (_, i) => meanAbs[i] ?? 0),
    sharedBy,
  );
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

/** The maximum over inputs that share a factor. */
function largestOfShared(values: Float32Array, sharedBy: Int32Array | undefined): Float32Array {
  if (sharedBy === undefined) return values;
  const largest = new Map<number, number>();
  for (const [i, value] of values.entries()) {
    const key = sharedBy[i] ?? 0;
    largest.set(key, Math.max(largest.get(key) ?? 0, value));
  }
  return values.map((_, i) => largest.get(sharedBy[i] ?? 0) ?? 0);
}

/** Centred on 1, at the geometric mean of the extremes. */
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
  const groups = Array.from({ length: Math.ceil(numColumns / groupSize) }, (_, i) => ({
    weights: row.subarray(i * groupSize, (i + 1) * groupSize),
    importance: importance.subarray(i * groupSize, (i + 1) * groupSize),
  }));
  let sum = 0;
  for (const { values } of matrices) {
    for (let start = 0; start < values.length; start += numColumns) {
      for (let i = 0; i < numColumns; i++) row[i] = (values[start + i] ?? 0) * (factors[i] ?? 1);
      for (const group of groups) {
        const scale = groupScale(group.weights, undefined);
        if (scale > 0) sum += roundingError(group.weights, scale, group.importance);
      }
    }
  }
  return sum;
}

/** Interpolates between equal inputs and equal weights. */
const SMOOTHING_EXPONENT = 0.5;

/**
 * SmoothQuant factors: divide the range of each input between it and its weights. `maxAbs` is of the inputs; no search.
 */
export function smoothingFactors(
  matrices: readonly SampledMatrix[],
  maxAbs: ArrayLike<number>,
  sharedBy: Int32Array | undefined,
): Float32Array {
  const numColumns = maxAbs.length;
  const weights = new Float32Array(numColumns);
  for (const { values } of matrices) {
    for (let i = 0; i < values.length; i++) {
      const column = i % numColumns;
      weights[column] = Math.max(weights[column] ?? 0, Math.abs(values[i] ?? 0));
    }
  }
  const inputs = largestOfShared(
    Float32Array.from({ length: numColumns }, (_, i) => maxAbs[i] ?? 0),
    sharedBy,
  );
  return largestOfShared(weights, sharedBy).map((weight, i) => {
    const factor = (inputs[i] ?? 0) ** SMOOTHING_EXPONENT / weight ** (1 - SMOOTHING_EXPONENT);
    return Number.isFinite(factor) ? Math.max(factor, SMALLEST_FACTOR) : 1;
  });
}
