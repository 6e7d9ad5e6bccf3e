/** Lengths of prompts and answers, drawn from a distribution. Pure. */
import type { Random } from "./random.ts";

export interface LengthDistribution {
  readonly kind: "normal" | "uniform" | "lognormal";
  readonly mean: number;
  /** Standard deviation; uniform: the mean plus or minus so much. */
  readonly spread: number;
}

/** At least 1. */
export function drawLength({ kind, mean, spread }: LengthDistribution, random: Random): number {
  const draw = (): number => {
    if (spread === 0) return mean;
    if (kind === "uniform") return mean + (random.next() * 2 - 1) * spread;
    if (kind === "normal") return mean + random.normal() * spread;
    // The parameters of the logarithm, from mean and deviation of the values.
    const variance = Math.log(1 + (spread / mean) ** 2);
    return Math.exp(Math.log(mean) - variance / 2 + random.normal() * Math.sqrt(variance));
  };
  return Math.max(1, Math.round(draw()));
}

export interface Weighted<T> {
  readonly value: T;
  readonly weight: number;
}

/** One of several, by weight: models or LoRA adapters of a mix. */
export function pickWeighted<T>(choices: readonly Weighted<T>[], random: Random): T | undefined {
  const total = choices.reduce((sum, { weight }) => sum + weight, 0);
  let at = random.next() * total;
  for (const { value, weight } of choices) {
    at -= weight;
    if (at < 0) return value;
  }
  return choices.at(-1)?.value;
}
