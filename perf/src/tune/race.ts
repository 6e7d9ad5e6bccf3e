/**
 * Decides which points are measured longer: successive halving (Jamieson and Talwalkar 2016) with racing, which drops what a
 * confidence interval puts below the best (Maron and Moore 1994). Pure but for the round that it is in.
 */
import type { Standing } from "./objective.ts";
import { type Variant, variantKey } from "./search-space.ts";

/** One configuration under one load, as far as it has been measured. */
export interface Point {
  readonly variant: Variant;
  readonly load: number;
  /** Units of measurement so far; `FULL_UNITS` make a whole one. */
  readonly units: number;
  readonly score: number;
  readonly half: number;
  readonly standing: Standing;
  /** Settles a tie. */
  readonly p99Ms: number;
}

/** Measurements of one configuration, which is loaded once for them. */
export interface Turn {
  readonly variant: Variant;
  readonly loads: readonly { readonly load: number; readonly units: number }[];
  /** Higher loads are skipped once the rate no longer grows. */
  readonly stopsAtPeak: boolean;
}

/** Units of the first look, of the second round and of a whole measurement. */
export const ROUND_UNITS = [1, 4, 16] as const;
export const FULL_UNITS = 16;
/** One point in so many goes on to the next round. */
const KEEP_ONE_IN = 4;
/** So many go on at least, as far as their intervals allow; the same holds for configurations, whose loads cost time. */
const MIN_KEPT = 3;
/** Scores within so much are a tie: about 2 %. */
const TIE = 0.02;

export class Race {
  #round = 0;

  /** Measurements of the next round; undefined: the race is over. */
  next(points: readonly Point[]): readonly Turn[] | undefined {
    while (this.#round < ROUND_UNITS.length - 1) {
      this.#round += 1;
      const turns = turnsFor(survivors(points, ROUND_UNITS[this.#round - 1] ?? 1), ROUND_UNITS[this.#round] ?? 1);
      if (turns.length > 0) return turns;
    }
    if (winner(points) !== undefined) return undefined;
    // None of the finalists keeps the constraints: the next best gets its chance, one at a time.
    const [next] = ranked(points.filter(({ units, standing }) => units < FULL_UNITS && isPossible(standing)));
    return next === undefined ? undefined : turnsFor([next], FULL_UNITS);
  }
}

/** The best of the wholly measured points that keep the constraints; among ties the one with the lowest latency. */
export function winner<P extends Point>(points: readonly P[]): P | undefined {
  const whole = points.filter(({ units, standing }) => units >= FULL_UNITS && standing === "met");
  const best = Math.max(...whole.map(({ score }) => score));
  const [first] = whole.filter(({ score }) => score >= best - TIE).sort((a, b) => a.p99Ms - b.p99Ms);
  return first;
}

export function isPossible(standing: Standing): boolean {
  return standing === "met" || standing === "open";
}

/** Best first; what violates the constraints for certain comes last. */
export function ranked<P extends Point>(points: readonly P[]): readonly P[] {
  const order = { met: 0, open: 0, violated: 1, failed: 2 } as const;
  return [...points].sort((a, b) => order[a.standing] - order[b.standing] || b.score - a.score);
}

function survivors(points: readonly Point[], units: number): readonly Point[] {
  const measured = ranked(points.filter((point) => point.units >= units && isPossible(point.standing)));
  const bestLow = Math.max(
    ...measured.filter(({ standing }) => standing === "met").map(({ score, half }) => score - half),
  );
  const kept = measured.slice(0, keptOf(measured.length)).filter(({ score, half }) => !(score + half < bestLow));
  const variantsOf = (list: readonly Point[]): string[] => [...new Set(list.map(({ variant }) => variantKey(variant)))];
  const variants = new Set(variantsOf(kept).slice(0, keptOf(variantsOf(measured).length)));
  return kept.filter(({ variant }) => variants.has(variantKey(variant)));
}

function keptOf(count: number): number {
  return Math.max(MIN_KEPT, Math.ceil(count / KEEP_ONE_IN));
}

function turnsFor(points: readonly Point[], units: number): readonly Turn[] {
  const turns = new Map<string, { readonly variant: Variant; readonly loads: { load: number; units: number }[] }>();
  for (const point of points) {
    if (point.units >= units) continue;
    const key = variantKey(point.variant);
    const turn = turns.get(key) ?? { variant: point.variant, loads: [] };
    turn.loads.push({ load: point.load, units: units - point.units });
    turns.set(key, turn);
  }
  return [...turns.values()].map(({ variant, loads }) => ({
    variant,
    loads: loads.sort((a, b) => a.load - b.load),
    stopsAtPeak: false,
  }));
}
