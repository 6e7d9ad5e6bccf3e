/** Tunes one model: loads configurations as the search asks for them, measures them, and collects what came out. */
import type { WrittenMessage } from "@nereid/server/config/model/written-message";
import type { Reporter } from "@nereid/server/files/progress";
import type { PointMeter } from "./measure-point.ts";
import { configOf } from "./model-variant.ts";
import { type Goal, judge, type Metrics, type PointSamples } from "./objective.ts";
import { type Point, type Turn, winner } from "./race.ts";
import { type SearchSpace, type Variant, variantKey, variantName } from "./search-space.ts";
import { LoadRefusal, type TunedServer } from "./tuned-server.ts";
import { isPastPeak, type SearchMode, Tuner } from "./tuner.ts";

export interface TunedPoint extends Point {
  readonly name: string;
  readonly metrics: Metrics;
  readonly numRequests: number;
  readonly numFailed: number;
}

export interface TuneResult {
  readonly model: string;
  readonly space: SearchSpace;
  readonly mode: SearchMode;
  readonly points: readonly TunedPoint[];
  readonly best: TunedPoint | undefined;
  readonly bestConfig: WrittenMessage | undefined;
  readonly numLoads: number;
  readonly seconds: number;
  /** Configurations that did not load, and why. */
  readonly refused: readonly { readonly name: string; readonly reason: string }[];
}

export interface TuneJob {
  readonly model: string;
  readonly base: WrittenMessage;
  readonly space: SearchSpace;
  readonly goal: Goal;
  readonly mode: SearchMode;
  readonly batchSize: number;
  /** Time of a whole measurement of one point. */
  readonly fullMs: number;
}

interface Taken {
  readonly variant: Variant;
  readonly units: number;
  readonly samples: PointSamples;
}

export async function runTune(
  job: TuneJob,
  server: TunedServer,
  meter: PointMeter,
  reporter: Reporter,
  signal: AbortSignal,
): Promise<TuneResult> {
  const run = new TuneRun(job, server, meter, signal);
  const progress = reporter.startTask({ task: `tune ${job.model}`, unit: "measurements" });
  const startMs = performance.now();
  const tuner = new Tuner(job.space, job.mode);
  try {
    for (let turns = tuner.next([]); turns !== undefined; turns = tuner.next(run.points())) {
      for (const turn of turns) {
        const failure = await run.take(turn);
        if (failure !== undefined) reporter.info(`${variantName(job.space, turn.variant)}: ${failure}`);
        progress.add(turn.loads.length, variantName(job.space, turn.variant));
      }
    }
  } finally {
    progress.end();
  }
  const points = run.points();
  const best = winner(points);
  return {
    model: job.model,
    space: job.space,
    mode: job.mode,
    points,
    best,
    bestConfig: best === undefined ? undefined : configOf(job.base, job.space, best.variant),
    numLoads: run.numLoads,
    seconds: (performance.now() - startMs) / 1000,
    refused: run.refused,
  };
}

class TuneRun {
  readonly #job: TuneJob;
  readonly #server: TunedServer;
  readonly #meter: PointMeter;
  readonly #signal: AbortSignal;
  readonly #taken = new Map<string, Taken>();
  readonly refused: { readonly name: string; readonly reason: string }[] = [];
  numLoads = 0;

  constructor(job: TuneJob, server: TunedServer, meter: PointMeter, signal: AbortSignal) {
    this.#job = job;
    this.#server = server;
    this.#meter = meter;
    this.#signal = signal;
  }

  /** @returns why a configuration or some of its requests failed */
  async take({ variant, loads, stopsAtPeak }: Turn): Promise<string | undefined> {
    await this.#meter.pause(this.#signal);
    const refusal = await this.#load(variant);
    if (refusal !== undefined) {
      for (const { load, units } of loads) this.#note(variant, load, units, [], 1);
      return refusal;
    }
    const rates: number[] = [];
    let failure: string | undefined;
    for (const { load, units } of loads) {
      const taken = await this.#meter.measure(load, units, this.#job.fullMs, this.#signal);
      failure ??= taken.failure;
      const { metrics, standing } = this.#note(
        variant,
        load,
        units,
        taken.groups,
        taken.failure === undefined ? 0 : Math.max(1, taken.numFailed),
      );
      rates.push(metrics.perf_throughput);
      if (stopsAtPeak && (isPastPeak(rates) || standing === "failed")) break;
    }
    return failure;
  }

  points(): readonly TunedPoint[] {
    const { space, goal } = this.#job;
    return [...this.#taken.values()].map(({ variant, units, samples }) => {
      const { score, half, standing, metrics } = judge(samples, goal);
      const numRequests = samples.groups.reduce((sum, group) => sum + group.length, 0);
      const { load, numFailed } = samples;
      const facts = { name: variantName(space, variant), metrics, numRequests, numFailed };
      return { variant, load, units, score, half, standing, p99Ms: metrics.perf_latency_p99, ...facts };
    });
  }

  async #load(variant: Variant): Promise<string | undefined> {
    this.#signal.throwIfAborted();
    const { model, base, space } = this.#job;
    this.numLoads += 1;
    try {
      await this.#server.load(model, configOf(base, space, variant));
      return undefined;
    } catch (error) {
      if (!(error instanceof LoadRefusal)) throw error;
      this.refused.push({ name: variantName(space, variant), reason: error.message });
      return error.message;
    }
  }

  #note(
    variant: Variant,
    load: number,
    units: number,
    groups: readonly (readonly number[])[],
    numFailed: number,
  ): ReturnType<typeof judge> {
    const key = `${variantKey(variant)}@${load}`;
    const before = this.#taken.get(key);
    const samples: PointSamples = {
      load,
      batchSize: this.#job.batchSize,
      groups: [...(before?.samples.groups ?? []), ...groups],
      numFailed: (before?.samples.numFailed ?? 0) + numFailed,
    };
    this.#taken.set(key, { variant, units: (before?.units ?? 0) + units, samples });
    return judge(samples, this.#job.goal);
  }
}
