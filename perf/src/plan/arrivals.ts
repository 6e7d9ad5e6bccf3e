/** Arrival schedules of an open loop: when each request is sent, no matter how the server answers. Pure. */
import { createRandom } from "./random.ts";

export type ArrivalSchedule =
  | { readonly kind: "constant"; readonly perSecond: number }
  /** `burstiness` 1 is a Poisson process; below 1 bursts, above 1 is more even (gamma distributed intervals). */
  | { readonly kind: "gamma"; readonly perSecond: number; readonly burstiness: number; readonly seed: number }
  /** Intervals in us, repeated from the start (perf_analyzer, `--request-intervals`). */
  | { readonly kind: "intervals"; readonly intervalsUs: readonly number[] }
  /** Times in ms from the start; the schedule ends with the last one. */
  | { readonly kind: "timestamps"; readonly timesMs: readonly number[] };

/** Times in ms from the start, not falling. */
export function* arrivalTimes(schedule: ArrivalSchedule): Generator<number, void, undefined> {
  if (schedule.kind === "timestamps") {
    yield* schedule.timesMs;
    return;
  }
  const interval = intervalSource(schedule);
  // From the number and not by adding up, which drifts with an interval that no float represents.
  if (schedule.kind === "constant") for (let k = 0; ; k++) yield (k * 1000) / schedule.perSecond;
  let atMs = 0;
  for (let k = 0; ; k++) {
    atMs += interval(k);
    yield atMs;
  }
}

function intervalSource(schedule: Exclude<ArrivalSchedule, { readonly kind: "timestamps" }>): (k: number) => number {
  switch (schedule.kind) {
    case "constant":
      return () => 1000 / schedule.perSecond;
    case "gamma": {
      const random = createRandom(schedule.seed);
      const { perSecond, burstiness } = schedule;
      return () => (random.gamma(burstiness) * 1000) / perSecond;
    }
    case "intervals": {
      const { intervalsUs } = schedule;
      return (k) => (intervalsUs[k % intervalsUs.length] ?? 0) / 1000;
    }
  }
}

/** The part of one of `count` threads: every `count`-th arrival, from the `index`-th on. With the number of each arrival. */
export function* arrivalsOf(
  schedule: ArrivalSchedule,
  index: number,
  count: number,
): Generator<{ readonly number: number; readonly atMs: number }, void, undefined> {
  let number = 0;
  for (const atMs of arrivalTimes(schedule)) {
    if (number % count === index) yield { number, atMs };
    number += 1;
  }
}
