/**
 * Decides what is measured next: first a short look at configurations, all of them (Model Analyzer's brute search) or those that
 * a climb reaches (its quick search), then the race. Pure but for what it has asked for.
 */
import { FULL_UNITS, isPossible, type Point, Race, ROUND_UNITS, ranked, type Turn } from "./race.ts";
import {
  allVariants,
  isDuplicate,
  neighboursOf,
  pairsAbove,
  type SearchSpace,
  type Variant,
  variantKey,
} from "./search-space.ts";

/** `full`: every configuration under every load to the end, for comparison. */
export type SearchMode = "brute" | "quick" | "full";

/** A climb goes on for a gain above this: about 1 %. */
const CLIMB_GAIN = 0.01;
/** A rate grows if it is so much above the best before: 5 %, as Model Analyzer has it. */
const PEAK_GAIN = 1.05;
/** Loads in a row without growth that end a look. */
const LOADS_PAST_PEAK = 2;

export class Tuner {
  readonly #space: SearchSpace;
  readonly #mode: SearchMode;
  readonly #race = new Race();
  readonly #asked = new Set<string>();
  #waiting: Variant[];

  constructor(space: SearchSpace, mode: SearchMode) {
    this.#space = space;
    this.#mode = mode;
    this.#waiting = mode === "quick" ? startsOf(space) : [...allVariants(space)];
  }

  /** Undefined: the search is over. `points`: all that was measured so far. */
  next(points: readonly Point[]): readonly Turn[] | undefined {
    if (this.#waiting.length === 0 && this.#mode === "quick") this.#waiting = this.#climb(points);
    const variants = this.#waiting;
    this.#waiting = [];
    if (variants.length === 0) return this.#mode === "full" ? undefined : this.#race.next(points);
    for (const variant of variants) this.#asked.add(variantKey(variant));
    return variants.map((variant) => this.#look(variant));
  }

  #look(variant: Variant): Turn {
    const isFull = this.#mode === "full";
    const units = isFull ? FULL_UNITS : ROUND_UNITS[0];
    return { variant, loads: this.#space.loads.map((load) => ({ load, units })), stopsAtPeak: !isFull };
  }

  /** Neighbours of the best configuration that have not been looked at; none: it is a peak. */
  #climb(points: readonly Point[]): Variant[] {
    const best = bestOf(points);
    if (best !== undefined) return this.#stepsFrom(best.variant);
    // Nothing keeps the constraints yet: on from what comes nearest to it.
    const froms = ranked(points).map(({ variant }) => this.#stepsFrom(variant));
    return froms.find((steps) => steps.length > 0) ?? [];
  }

  #stepsFrom(variant: Variant): Variant[] {
    const isNew = (each: Variant): boolean => !this.#asked.has(variantKey(each));
    const single = neighboursOf(this.#space, variant).filter(isNew);
    return single.length > 0 ? single : pairsAbove(this.#space, variant).filter(isNew);
  }
}

/** The smallest configuration, the middle one and the largest: a climb from one alone ends on the first ridge. */
function startsOf(space: SearchSpace): Variant[] {
  const at = (share: number): Variant => space.settings.map(({ values }) => Math.floor((values.length - 1) * share));
  const starts = [at(0), at(0.5), at(1)].filter((variant) => !isDuplicate(space, variant));
  return [...new Map(starts.map((variant) => [variantKey(variant), variant])).values()];
}

/** A configuration counts by its best load. The first of nearly equal ones stays the best. */
function bestOf(points: readonly Point[]): Point | undefined {
  let best: Point | undefined;
  for (const point of points) {
    if (!isPossible(point.standing)) continue;
    if (best === undefined || point.score > best.score + CLIMB_GAIN) best = point;
  }
  return best;
}

/** Whether the rates under rising loads have stopped growing, so that higher loads only add latency. */
export function isPastPeak(rates: readonly number[]): boolean {
  const last = rates.slice(-LOADS_PAST_PEAK);
  const before = Math.max(...rates.slice(0, -LOADS_PAST_PEAK));
  return rates.length > LOADS_PAST_PEAK && last.every((rate) => rate <= before * PEAK_GAIN);
}

/** Points that no other one beats in throughput and in p99 latency, by rising latency. */
export function paretoFront<P extends { readonly throughput: number; readonly p99Ms: number }>(
  points: readonly P[],
): readonly P[] {
  const front: P[] = [];
  const sorted = [...points].sort((a, b) => a.p99Ms - b.p99Ms || b.throughput - a.throughput);
  for (const point of sorted) {
    if (point.throughput > (front.at(-1)?.throughput ?? 0)) front.push(point);
  }
  return front;
}
