/** A server whose latencies follow a formula: batches run on instances, each at a fixed and a per-row cost, with noise. */
import { createRandom } from "../plan/random.ts";
import { type Goal, judge, type PointSamples } from "./objective.ts";
import type { Point, Turn } from "./race.ts";
import { type SearchSpace, type Variant, variantKey } from "./search-space.ts";
import { isPastPeak, type SearchMode, Tuner } from "./tuner.ts";

export interface Surface {
  /** Time of a batch in ms, without its rows. */
  readonly batchMs: number;
  readonly rowMs: number;
  /** More instances than these share the processors. */
  readonly processors: number;
  /** Standard deviation of the logarithm of a latency. */
  readonly noise: number;
}

export interface SimulatedRun {
  readonly points: readonly Point[];
  /** Time that the search took: a unit is 190 ms, a load of the model 300 ms. */
  readonly costMs: number;
}

const UNIT_MS = 190;
const LOAD_MS = 300;
const GROUPS_PER_UNIT = 5;
const PER_GROUP = 20;

/** Mean latency in ms of a closed loop. `variant`: instances, rows of a batch, delay. */
export function latencyMs(
  { batchMs, rowMs, processors }: Surface,
  { instances, maxBatch, delayMs }: { readonly instances: number; readonly maxBatch: number; readonly delayMs: number },
  load: number,
): number {
  const used = Math.min(instances, load);
  const rows = Math.min(maxBatch, Math.max(1, Math.floor(load / used)));
  const slowdown = Math.max(1, used / processors);
  const busyMs = (batchMs + rowMs * rows) * slowdown + (rows < maxBatch ? delayMs : 0);
  return (busyMs * load) / (used * rows);
}

export function simulate(
  space: SearchSpace,
  surface: Surface,
  goal: Goal,
  mode: SearchMode,
  seed: number,
): SimulatedRun {
  const random = createRandom(seed);
  const samples = new Map<
    string,
    { readonly variant: Variant; readonly units: number; readonly taken: PointSamples }
  >();
  const tuner = new Tuner(space, mode);
  let costMs = 0;
  const measure = (variant: Variant, load: number, units: number): void => {
    const [instances = 1, maxBatch = 1, delayUs = 0] = space.settings.map(({ values }, k) =>
      Number(values[variant[k] ?? 0]),
    );
    const mean = latencyMs(surface, { instances, maxBatch, delayMs: delayUs / 1000 }, load);
    const groups = Array.from({ length: units * GROUPS_PER_UNIT }, () => {
      const drift = random.normal() * surface.noise; // what slows the machine for a while slows a whole group
      return Array.from({ length: PER_GROUP }, () => mean * Math.exp(drift + random.normal() * surface.noise));
    });
    const key = `${variantKey(variant)}@${load}`;
    const before = samples.get(key);
    const taken = { load, batchSize: 1, groups: [...(before?.taken.groups ?? []), ...groups], numFailed: 0 };
    samples.set(key, { variant, units: (before?.units ?? 0) + units, taken });
    costMs += units * UNIT_MS;
  };
  const points = (): readonly Point[] =>
    [...samples.values()].map(({ variant, units, taken }) => {
      const { score, half, standing, metrics } = judge(taken, goal);
      return { variant, load: taken.load, units, score, half, standing, p99Ms: metrics.perf_latency_p99 };
    });
  const run = ({ variant, loads, stopsAtPeak }: Turn): void => {
    costMs += LOAD_MS;
    const rates: number[] = [];
    for (const { load, units } of loads) {
      measure(variant, load, units);
      const key = `${variantKey(variant)}@${load}`;
      const taken = samples.get(key)?.taken;
      if (taken !== undefined) rates.push(judge(taken, goal).metrics.perf_throughput);
      if (stopsAtPeak && isPastPeak(rates)) return;
    }
  };
  for (let turns = tuner.next([]); turns !== undefined; turns = tuner.next(points())) turns.forEach(run);
  return { points: points(), costMs };
}
