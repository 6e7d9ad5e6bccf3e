/** Effect of context extension on RoPE frequencies: a divisor for each, and a magnitude. Pure numbers. */
import type { Rope } from "./decoder-config.ts";

export interface RopeFactors {
  /** [numDims / 2]; undefined when no frequency changes. */
  readonly divisors: Float32Array | undefined;
  /** Multiplies what has turned. */
  readonly magnitude: number;
}

/**
 * `servedPositions`: the longest sequence to be served. If short and long sequences need other frequencies, it decides
 * for all. A sequence that changed them midway would read keys that were rotated with the other list.
 */
export function ropeFactors({ theta, numDims, scaling }: Rope, servedPositions: number): RopeFactors {
  const count = numDims / 2;
  switch (scaling.kind) {
    case "none":
      return { divisors: undefined, magnitude: 1 };
    case "linear":
      return { divisors: new Float32Array(count).fill(scaling.factor), magnitude: 1 };
    case "llama3":
      return { divisors: llama3Divisors(theta, numDims, scaling), magnitude: 1 };
    case "yarn":
      return { divisors: yarnDivisors(theta, numDims, scaling), magnitude: scaling.magnitude };
    case "proportional": {
      const divisors = new Float32Array(count).fill(STILL);
      return { divisors: divisors.fill(scaling.factor, 0, scaling.numPairs), magnitude: 1 };
    }
    case "longrope": {
      const isLong = servedPositions > scaling.originalMaxPositions;
      const divisors = Float32Array.from(isLong ? scaling.longFactors : scaling.shortFactors);
      const magnitude = isLong ? scaling.magnitude : (scaling.shortMagnitude ?? scaling.magnitude);
      return { divisors, magnitude };
    }
  }
}

/** Divides the frequency of a pair that does not rotate. */
const STILL = 1e30;

type Scaling<Kind extends Rope["scaling"]["kind"]> = Extract<Rope["scaling"], { readonly kind: Kind }>;

/** Short waves stay, long ones are stretched in full, those between in part. */
function llama3Divisors(theta: number, numDims: number, scaling: Scaling<"llama3">): Float32Array {
  const { factor, lowFrequencyFactor, highFrequencyFactor, originalMaxPositions } = scaling;
  return Float32Array.from({ length: numDims / 2 }, (_, i) => {
    const turns = originalMaxPositions / (2 * Math.PI * theta ** ((2 * i) / numDims));
    return blend(factor, (turns - lowFrequencyFactor) / (highFrequencyFactor - lowFrequencyFactor));
  });
}

/** The same with a ramp over the number of the frequency: from those that turn `betaFast` times to `betaSlow`. */
function yarnDivisors(theta: number, numDims: number, scaling: Scaling<"yarn">): Float32Array {
  const { factor, betaFast, betaSlow, originalMaxPositions, isTruncated } = scaling;
  const frequencyOf = (turns: number): number =>
    (numDims * Math.log(originalMaxPositions / (turns * 2 * Math.PI))) / (2 * Math.log(theta));
  const fast = frequencyOf(betaFast);
  const slow = frequencyOf(betaSlow);
  const low = Math.max(isTruncated ? Math.floor(fast) : fast, 0);
  const high = Math.min(isTruncated ? Math.ceil(slow) : slow, numDims - 1);
  const width = high === low ? 0.001 : high - low;
  return Float32Array.from({ length: numDims / 2 }, (_, i) => blend(factor, 1 - clamp01((i - low) / width)));
}

/** The divisor of a frequency of which the share `kept` is not stretched. */
function blend(factor: number, kept: number): number {
  const share = clamp01(kept);
  return 1 / ((1 - share) / factor + share);
}

function clamp01(value: number): number {
  return Math.min(1, Math.max(0, value));
}
