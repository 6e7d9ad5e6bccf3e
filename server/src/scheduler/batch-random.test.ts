import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeConfig, fakeInput, fakeOutput } from "../../../tests/fakes/model-config.ts";
import { collect, fakeRequest, int32, int32Values } from "../../../tests/fakes/requests.ts";
import { createRandom, type Random } from "../../../tests/support/random.ts";
import type { Batch, ModelInstance } from "../backend/backend.ts";
import { signatureOf } from "../core/model-signature.ts";
import { ServerError } from "../core/server-error.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../observe/log.ts";
import { BatchScheduler } from "./batch-scheduler.ts";
import type { InstanceLimits } from "./instance-pool.ts";
import { StatisticsCounter } from "./model-statistics.ts";
import { type Executor, RateLimiter } from "./rate-limiter.ts";
import { ResourceLimits } from "./resource-limits.ts";
import { ScheduledRequest } from "./scheduled-request.ts";

const SEEDS = 150;
const STEPS = 120;
const LIMIT = 2;
const SILENT = new ServerLog({ ...DEFAULT_LOG_SETTINGS, log_info: false, log_error: false });
const CONFIG = fakeConfig({
  max_batch_size: 4,
  input: [fakeInput("X", [1])],
  output: [fakeOutput("Y", [1])],
  dynamic_batching: {
    preferred_batch_size: [4],
    max_queue_delay_microseconds: 0,
    preserve_ordering: false,
    priority_levels: 0,
    default_priority_level: 0,
    priority_queue_policy: {},
  },
});

/** Runs a batch until the test lets it end. */
class GatedInstance implements ModelInstance {
  readonly name = "m";
  readonly faults: string[];
  end: ((failure: boolean) => void) | undefined;
  isLeft = false;

  constructor(faults: string[]) {
    this.faults = faults;
  }

  execute(batch: Batch): Promise<void> {
    if (this.end !== undefined) this.faults.push("an instance got two batches at once");
    if (this.isLeft) this.faults.push("an instance ran that was taken out");
    return new Promise((resolve, reject) => {
      this.end = (failure) => {
        this.end = undefined;
        if (failure) {
          reject(new ServerError("internal", "broken"));
          return;
        }
        for (const one of batch.requests) {
          one.respond({ outputs: one.request.inputs.map((input) => ({ ...input, name: "Y" })), final: true });
        }
        resolve();
      };
    });
  }

  isReady(): boolean {
    return true;
  }

  async close(): Promise<void> {
    await Promise.resolve();
  }
}

/** Two models; with a limiter their instances share a resource, without one they come and go. */
class RandomRun {
  readonly faults: string[] = [];
  readonly ends: Promise<void>[] = [];
  numEnds = 0;
  readonly #random: Random;
  readonly #instances: GatedInstance[][];
  readonly #all: GatedInstance[];
  readonly #schedulers: readonly BatchScheduler[];
  readonly #aborts: AbortController[] = [];
  readonly #isLimited: boolean;

  constructor(seed: number, isLimited: boolean) {
    this.#random = createRandom(seed);
    this.#isLimited = isLimited;
    this.#instances = [0, 1].map(() => Array.from({ length: 2 }, () => new GatedInstance(this.faults)));
    this.#all = this.#instances.flat();
    const limits = isLimited ? limitsOf(this.#all) : undefined;
    this.#schedulers = this.#instances.map((instances) => schedulerOf(instances, limits));
  }

  async step(): Promise<void> {
    const pick = this.#random.below(10);
    if (pick < 5) this.#ask();
    else if (pick < 8) this.#endOne();
    else if (pick === 8) this.#aborts[this.#random.below(this.#aborts.length)]?.abort();
    else if (!this.#isLimited) this.#resize();
    await Promise.resolve();
    const running = this.#all.filter(({ end }) => end !== undefined).length;
    if (this.#isLimited && running > LIMIT) this.faults.push(`${running} ran at once`);
  }

  /** Everything ends, whatever order the instances take. */
  async finish(): Promise<void> {
    const drained = Promise.all(this.#schedulers.map((scheduler) => scheduler.drain()));
    for (let turns = 0; this.numEnds < this.ends.length; turns += 1) {
      if (turns > 10_000) throw new Error(`${this.ends.length - this.numEnds} requests wait for ever`);
      this.#endOne();
      await new Promise((resolve) => setImmediate(resolve));
    }
    await Promise.all([drained, ...this.ends]);
  }

  #ask(): void {
    const serial = this.ends.length;
    const abort = new AbortController();
    this.#aborts.push(abort);
    const rows = 1 + this.#random.below(3);
    const x = int32("X", [rows, 1], new Array<number>(rows).fill(serial));
    const context = {
      signature: signatureOf(CONFIG),
      version: "1",
      statistics: new StatisticsCounter(),
      decoupled: false,
      reshapesOutputs: false,
    };
    const request = new ScheduledRequest(fakeRequest([x], { signal: abort.signal }), rows, context);
    this.#random.pick(this.#schedulers).enqueue(request);
    this.ends.push(this.#expectEnd(request, serial, rows));
  }

  async #expectEnd(request: ScheduledRequest, serial: number, rows: number): Promise<void> {
    try {
      const responses = await collect(request.stream);
      const values = responses.flatMap(({ outputs }) => outputs.flatMap(int32Values));
      const isRight = responses.length === 1 && values.length === rows && values.every((value) => value === serial);
      if (!isRight) this.faults.push(`request ${serial} got ${values.join(",")}`);
    } catch (error) {
      const { code } = ServerError.from(error);
      if (code !== "cancelled" && code !== "internal") this.faults.push(`request ${serial}: ${code}`);
    }
    this.numEnds += 1;
  }

  #endOne(): void {
    const running = this.#all.filter(({ end }) => end !== undefined);
    running[this.#random.below(running.length)]?.end?.(this.#random.below(8) === 0);
  }

  #resize(): void {
    const which = this.#random.below(2);
    const before = this.#instances[which] ?? [];
    const kept = before.filter(() => this.#random.below(2) === 0);
    const added = Array.from({ length: this.#random.below(3) + (kept.length === 0 ? 1 : 0) }, () => {
      const instance = new GatedInstance(this.faults);
      this.#all.push(instance);
      return instance;
    });
    const after = [...kept, ...added];
    for (const instance of before) instance.isLeft = !after.includes(instance);
    this.#instances[which] = after;
    void this.#schedulers[which]?.resize(after);
  }
}

function limitsOf(instances: readonly ModelInstance[]): InstanceLimits {
  const limiter = new RateLimiter(new ResourceLimits([{ name: "R", count: LIMIT, device: -1 }]));
  const executors = instances.map((_, i): Executor => ({ needs: [{ name: "R", count: 1, device: 0 }], priority: i }));
  limiter.register(executors);
  const byInstance = new Map(instances.map((instance, i) => [instance, executors[i]]));
  return {
    limiter,
    executorOf: (instance) => byInstance.get(instance) ?? assert.fail("an unknown instance asked"),
  };
}

function schedulerOf(instances: readonly ModelInstance[], limits: InstanceLimits | undefined): BatchScheduler {
  const statistics = new StatisticsCounter();
  return new BatchScheduler({
    config: CONFIG,
    signature: signatureOf(CONFIG),
    instances,
    statistics,
    log: SILENT,
    limits,
  });
}

for (const isLimited of [false, true]) {
  const what = isLimited ? "with a resource that two models share" : "while instances come and go";
  test(`BatchScheduler answers every request once ${what}, in ${SEEDS} random schedules`, async () => {
    for (let seed = 1; seed <= SEEDS; seed += 1) {
      const run = new RandomRun(seed, isLimited);
      for (let step = 0; step < STEPS; step += 1) await run.step();
      await run.finish();
      assert.deepEqual(run.faults, [], `seed ${seed}`);
    }
  });
}
