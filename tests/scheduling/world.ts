/**
 * Plays a scenario: the real schedulers over models that do what is their fate, on a clock that jumps from one event to the next.
 * Collects what was wrong by the books of the watches and of the clients.
 */
import { ServerError } from "../../server/src/core/server-error.ts";
import { ResponseCache } from "../../server/src/scheduler/cache/response-cache.ts";
import { RateLimiter } from "../../server/src/scheduler/rate-limiter.ts";
import { ResourceLimits } from "../../server/src/scheduler/resource-limits.ts";
import { ScheduledRequest } from "../../server/src/scheduler/scheduled-request.ts";
import { BatchWatch } from "./batch-watch.ts";
import { type Client, createClient } from "./client.ts";
import { LiveEnsemble } from "./live-ensemble.ts";
import { LiveModel } from "./live-model.ts";
import type { Action, Ask, Scenario } from "./scenario.ts";
import { SequenceWatch } from "./sequence-watch.ts";
import { VirtualClock } from "./virtual-clock.ts";
import { Faults } from "./watch.ts";

export interface Figures {
  schedules: number;
  requests: number;
  refused: number;
  cancelled: number;
  timedOut: number;
  failed: number;
  answered: number;
  fromCache: number;
  batches: number;
  reloads: number;
  longestWaitMs: number;
}

export function noFigures(): Figures {
  return {
    schedules: 0,
    requests: 0,
    refused: 0,
    cancelled: 0,
    timedOut: 0,
    failed: 0,
    answered: 0,
    fromCache: 0,
    batches: 0,
    reloads: 0,
    longestWaitMs: 0,
  };
}

/** More than any scenario takes: who gets here turns in circles. */
const MAX_STEPS = 100_000;

/** Plays it to the end; returns what was wrong, nothing when all was well. */
export async function playScenario(scenario: Scenario, figures: Figures): Promise<readonly string[]> {
  const world = new World(scenario, figures);
  try {
    await world.play();
  } catch (error) {
    world.faults.add(error instanceof Error ? (error.stack ?? error.message) : String(error));
  }
  return world.faults.found;
}

class World {
  readonly faults = new Faults();
  readonly #scenario: Scenario;
  readonly #figures: Figures;
  readonly #clock = new VirtualClock();
  readonly #limiter: RateLimiter | undefined;
  readonly #cache: ResponseCache | undefined;
  /** As they are served now. */
  readonly #models: LiveModel[];
  readonly #all: LiveModel[] = [];
  /** By number of the model: the load before the present one. */
  readonly #overtaken = new Map<number, LiveModel>();
  readonly #ensemble: LiveEnsemble | undefined;
  readonly #clients = new Map<number, Client>();
  readonly #closing: Promise<void>[] = [];

  constructor(scenario: Scenario, figures: Figures) {
    this.#scenario = scenario;
    this.#figures = figures;
    const { capacity, cacheBytes, models, ensemble } = scenario;
    if (capacity !== undefined) {
      this.#limiter = new RateLimiter(new ResourceLimits([{ name: "R", count: capacity, device: -1 }]));
    }
    if (cacheBytes !== undefined) this.#cache = new ResponseCache(cacheBytes);
    this.#models = models.map((_, index) => this.#load(index, 1));
    if (ensemble !== undefined) {
      this.#ensemble = new LiveEnsemble({
        config: ensemble,
        models,
        clock: this.#clock,
        faults: this.faults,
        fates: scenario.fates,
        modelOf: (name) => this.#models.find(({ spec }) => spec.config.name === name),
      });
    }
  }

  async play(): Promise<void> {
    for (const action of this.#scenario.actions) this.#clock.after(action.atMs, () => this.#act(action));
    await this.#run();
    for (const client of this.#clients.values()) client.expectEnd();
    for (const model of this.#models) this.#close(model);
    const drained = this.#ensemble?.scheduler.drain();
    await this.#run();
    if (this.faults.found.length > 0) return; // what waits for ever is named already
    await Promise.all([...this.#closing, drained]);
    this.#figures.fromCache += this.#cache?.statistics().numHits ?? 0;
    this.#judgeStatistics();
    this.#cache?.checkIntegrity();
  }

  /** Until nothing more is due. */
  async #run(): Promise<void> {
    for (let steps = 0; this.#clock.step(); steps += 1) {
      if (steps > MAX_STEPS) throw new Error("time goes on and nothing comes of it");
      await settled();
      for (const { watch, isClosed } of this.#all) if (!isClosed) watch.settled();
      this.#judgeResources();
    }
  }

  #act(action: Action): void {
    switch (action.kind) {
      case "ask":
        this.#ask(action);
        break;
      case "cancel":
        this.#cancel(action.serial);
        break;
      case "reload":
        this.#reload(action.target);
        break;
      case "resize":
        this.#resize(action.target, action.keep, action.add);
        break;
    }
  }

  #ask(ask: Ask): void {
    const target = ask.target < 0 ? this.#ensemble : this.#targetOf(ask);
    if (target === undefined) return;
    this.#figures.requests += 1;
    const client = createClient({
      ask,
      target,
      faults: this.faults,
      scenario: this.#scenario,
      clock: this.#clock,
      figures: this.#figures,
    });
    const scheduled = new ScheduledRequest(client.request, ask.rows, target.context);
    const watch = target instanceof LiveModel ? target.watch : undefined;
    client.attach(scheduled);
    watch?.arriving(scheduled, ask);
    if (target instanceof LiveModel) target.asked(client.request);
    try {
      target.scheduler.enqueue(scheduled);
    } catch (error) {
      this.#figures.refused += 1;
      watch?.refused(scheduled, ServerError.from(error));
      client.refused(ServerError.from(error));
      return;
    }
    if (watch instanceof SequenceWatch) watch.taken(ask);
    else if (ask.isOvertaken && target !== this.#models[ask.target] && target instanceof LiveModel) {
      this.faults.add(`request ${ask.serial} was taken by a model on its way out`);
    }
    this.#clients.set(ask.serial, client);
    client.listen(scheduled);
  }

  #targetOf({ target, isOvertaken }: Ask): LiveModel | undefined {
    return (isOvertaken ? this.#overtaken.get(target) : undefined) ?? this.#models[target];
  }

  #cancel(serial: number): void {
    const client = this.#clients.get(serial);
    if (client === undefined) return;
    for (const { watch } of this.#all) if (watch instanceof SequenceWatch) watch.disturbed(client.ask);
    client.abort();
  }

  #reload(target: number): void {
    const before = this.#models[target];
    if (before === undefined) return;
    this.#figures.reloads += 1;
    this.#models[target] = this.#load(target, before.generation + 1);
    this.#overtaken.set(target, before);
    this.#close(before);
  }

  #close(model: LiveModel): void {
    const closed = model.close();
    this.#closing.push(closed);
    closed.catch((error: unknown) => this.faults.add(String(error)));
  }

  #resize(target: number, keep: number, add: number): void {
    const model = this.#models[target];
    if (model?.scheduler.resize === undefined || this.#limiter !== undefined) return;
    this.#closing.push(model.resize(keep, add));
  }

  #load(index: number, generation: number): LiveModel {
    const spec = this.#scenario.models[index];
    if (spec === undefined) throw new Error(`no model ${index}`);
    const model = new LiveModel({
      spec,
      index,
      generation,
      clock: this.#clock,
      fates: this.#scenario.fates,
      faults: this.faults,
      limiter: this.#limiter,
      cache: this.#cache,
      onStarted: () => {
        this.#figures.batches += 1;
        queueMicrotask(() => this.#judgeCapacity());
      },
    });
    this.#all.push(model);
    return model;
  }

  /** Checks that running instances need no more than there is. Returns their number. */
  #judgeCapacity(): number {
    const { capacity } = this.#scenario;
    if (capacity === undefined) return 0;
    let running = 0;
    let taken = 0;
    for (const { instances, spec } of this.#all) {
      for (const { isBusy } of instances) {
        if (!isBusy) continue;
        running += 1;
        taken += spec.need;
      }
    }
    if (taken > capacity) this.faults.add(`executions hold ${taken} of ${capacity}`);
    return running;
  }

  /** And when nothing runs, nobody waits for what there is. */
  #judgeResources(): void {
    if (this.#scenario.capacity === undefined || this.#judgeCapacity() > 0) return;
    for (const { watch, isClosed } of this.#all) if (!isClosed && watch instanceof BatchWatch) watch.judgeWaiting();
  }

  #judgeStatistics(): void {
    for (const { statistics, spec, generation, scheduler } of this.#all) {
      const name = `${spec.config.name}#${generation}`;
      if (scheduler.inFlight !== 0) this.faults.add(`${name}: ${scheduler.inFlight} in flight at the end`);
      if (statistics.pending !== 0) this.faults.add(`${name}: ${statistics.pending} pending at the end`);
    }
    this.#ensemble?.judgeEnd();
  }
}

/** When all that follows from what just happened has happened: ticks come after the last of the promises. */
function settled(): Promise<void> {
  return new Promise((resolve) => {
    process.nextTick(resolve);
  });
}
