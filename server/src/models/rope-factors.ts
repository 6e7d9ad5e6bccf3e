/** What context extension does to the rotary frequencies: a divisor for each. Pure numbers. */
import type { RopeScaling } from "../formats/hf-config.ts";

export interface RopeDescription {
  readonly headDim: number;
  readonly ropeTheta: number;
  readonly ropeScaling: RopeScaling;
}

/** [headDim / 2]; undefined when no frequency changes. */
export function ropeFrequencyFactors({ headDim, ropeTheta, ropeScaling }: RopeDescription): Float32Array | undefined {
  if (ropeScaling.kind === "none") return undefined;
  const factors = new Float32Array(headDim / 2);
  if (ropeScaling.kind === "linear") return factors.fill(ropeScaling.factor);
  const { factor, lowFrequencyFactor, highFrequencyFactor, originalMaxPositions } = ropeScaling;
  for (let i = 0; i < factors.length; i++) {
    const wavelength = 2 * Math.PI * ropeTheta ** ((2 * i) / headDim);
    // Short waves stay, long ones are stretched in full, those between in part.
    const turns = originalMaxPositions / wavelength;
    const kept = clamp01((turns - lowFrequencyFactor) / (highFrequencyFactor - lowFrequencyFactor));
    factors[i] = 1 / ((1 - kept) / factor + kept);
  }
  return factors;
}

function clamp01(value: number): number {
  return Math.min(1, Math.max(0, value));
}
