/** One load of a model: its scheduler over simulated instances, watched. A small form of the repository's work. */
import type { InferRequest } from "../../server/src/core/infer-request.ts";
import type { ModelConfig } from "../../server/src/core/model-config.ts";
import type { ModelSignature } from "../../server/src/core/model-signature.ts";
import { signatureOf } from "../../server/src/core/model-signature.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../server/src/observe/log.ts";
import { BatchScheduler } from "../../server/src/scheduler/batch/batch-scheduler.ts";
import { CachingScheduler } from "../../server/src/scheduler/cache/caching-scheduler.ts";
import type { ResponseCache } from "../../server/src/scheduler/cache/response-cache.ts";
import type { InstanceLimits } from "../../server/src/scheduler/instance-pool.ts";
import { StatisticsCounter } from "../../server/src/scheduler/model-statistics.ts";
import type { Executor, RateLimiter } from "../../server/src/scheduler/rate-limiter.ts";
import type { RequestContext } from "../../server/src/scheduler/scheduled-request.ts";
import type { Scheduler } from "../../server/src/scheduler/scheduler.ts";
import { SequenceFeed } from "../../server/src/scheduler/sequence/feed.ts";
import { SequenceScheduler } from "../../server/src/scheduler/sequence/sequence-scheduler.ts";
import { BatchWatch, STRATEGY_BUDGET, weightOf } from "./batch-watch.ts";
import type { FateRules } from "./fate.ts";
import { isDecoupled, type ModelSpec } from "./model-spec.ts";
import { PlayedInstance } from "./played-instance.ts";
import { SequenceWatch } from "./sequence-watch.ts";
import type { VirtualClock } from "./virtual-clock.ts";
import type { Faults } from "./watch.ts";

const SILENT: ServerLog = new ServerLog({
  ...DEFAULT_LOG_SETTINGS,
  log_info: false,
  log_warning: false,
  log_error: false,
});
const BUDGETED = {
  startBatch() {
    let left = STRATEGY_BUDGET;
    return (request: Parameters<typeof weightOf>[0]): boolean => {
      left -= weightOf(request);
      return left >= 0;
    };
  },
};

export interface LiveModelParts {
  readonly spec: ModelSpec;
  readonly index: number;
  readonly generation: number;
  readonly clock: VirtualClock;
  readonly fates: FateRules;
  readonly faults: Faults;
  readonly limiter: RateLimiter | undefined;
  readonly cache: ResponseCache | undefined;
  /** Every instance that starts a batch passes here. */
  readonly onStarted: (instance: PlayedInstance) => void;
}

export class LiveModel {
  readonly spec: ModelSpec;
  readonly generation: number;
  readonly signature: ModelSignature;
  readonly statistics: StatisticsCounter;
  readonly context: RequestContext;
  readonly scheduler: Scheduler;
  readonly watch: BatchWatch | SequenceWatch;
  readonly #parts: LiveModelParts;
  readonly #executors: readonly Executor[];
  readonly #rounds = new Map<string, number>();
  #instances: PlayedInstance[];
  /** Taken away, and not idle yet: sequences may still run there. */
  #leaving: PlayedInstance[] = [];
  #numMade = 0;
  readonly #keepsOrder: boolean;
  readonly #orders = new Map<string, number>();
  #lastOrder = -1;
  isClosed = false;

  constructor(parts: LiveModelParts) {
    const { spec, clock, generation, limiter, faults, cache, fates } = parts;
    const { config } = spec;
    this.#parts = parts;
    this.spec = spec;
    this.generation = generation;
    this.signature = signatureOf(config);
    this.statistics = new StatisticsCounter();
    const decoupled = isDecoupled(spec);
    this.#keepsOrder = config.dynamic_batching?.preserve_ordering === true && !spec.isCached;
    this.context = {
      signature: this.signature,
      version: "1",
      statistics: this.statistics,
      decoupled,
      reshapesOutputs: false,
      clock,
    };
    this.#instances = Array.from({ length: spec.numInstances }, () => this.#make());
    this.#executors = this.#instances.map(() => executorOf(spec));
    limiter?.register(this.#executors);
    const limits = this.#limits(limiter);
    const name = `${config.name}#${generation}`;
    const watched = { name, spec, clock, faults, instances: () => this.#allowed(), isLimited: limits !== undefined };
    const sequences = config.sequence_batching;
    this.watch =
      sequences === undefined ? new BatchWatch(watched) : new SequenceWatch({ ...watched, canFail: fates.trouble > 0 });
    const inner = this.#schedulerOf(config, limits);
    this.scheduler =
      cache === undefined || !spec.isCached
        ? inner
        : new CachingScheduler(inner, {
            cache,
            version: "1",
            generation: () => String(generation),
            parametersMatter: false,
          });
  }

  get instances(): readonly PlayedInstance[] {
    return this.#instances;
  }

  /** Some leave, others come. */
  async resize(keep: number, add: number): Promise<void> {
    const before = this.#instances;
    this.#instances = [
      ...before.filter((_, i) => (keep & (1 << i)) !== 0),
      ...Array.from({ length: add }, () => this.#make()),
    ];
    const gone = before.filter((instance) => !this.#instances.includes(instance));
    const leaving = this.scheduler.resize?.(this.#instances) ?? [];
    if (leaving.length !== gone.length) this.#parts.faults.add("an instance that was taken away did not leave");
    this.#leaving.push(...gone);
    await Promise.all(
      leaving.map(async ({ instance, idle }) => {
        await idle;
        this.#leaving = this.#leaving.filter((one) => one !== instance);
      }),
    );
    if (gone.some(({ isBusy }) => isBusy)) this.#parts.faults.add("an instance counted as gone while it ran");
  }

  /** The instances that may run a batch. */
  #allowed(): readonly PlayedInstance[] {
    const hasSequences = this.#parts.spec.config.sequence_batching !== undefined;
    return hasSequences ? [...this.#instances, ...this.#leaving] : this.#instances;
  }

  /** A client asks. */
  asked({ id }: InferRequest): void {
    this.#orders.set(id, this.#orders.size);
  }

  /** A client got something: where order is kept, from the first to the last. */
  responded({ id }: InferRequest): void {
    const order = this.#orders.get(id);
    if (!this.#keepsOrder || order === undefined) return;
    if (order < this.#lastOrder) this.#parts.faults.add(`${this.spec.config.name}: ${id} was answered out of order`);
    this.#lastOrder = order;
  }

  /** Takes no more, ends what it has, and goes. */
  async close(): Promise<void> {
    await this.scheduler.drain();
    if (this.scheduler.inFlight > 0) this.#parts.faults.add(`drained with ${this.scheduler.inFlight} in flight`);
    this.isClosed = true;
    this.#parts.limiter?.unregister(this.#executors);
    if (!this.spec.answersLater && !isDecoupled(this.spec)) await this.#expectIdle();
    this.#instances = [];
  }

  /** An execution may still be on its way out of the promise that told of its end. */
  async #expectIdle(): Promise<void> {
    await Promise.resolve();
    if (this.#instances.some(({ isBusy }) => isBusy)) this.#parts.faults.add("drained while an instance runs");
  }

  #make(): PlayedInstance {
    const { spec, index: model, generation, fates, clock, onStarted } = this.#parts;
    this.#numMade += 1;
    return new PlayedInstance({
      name: `${spec.config.name}_${this.#numMade}`,
      model,
      generation,
      spec,
      fates,
      clock,
      rounds: this.#rounds,
      onStarted: (instance, batch) => {
        if (this.isClosed) this.#parts.faults.add("a model that was closed ran");
        onStarted(instance);
        this.watch.started(instance, batch);
      },
    });
  }

  #schedulerOf(config: ModelConfig, limits: InstanceLimits | undefined): Scheduler {
    const { signature, statistics } = this;
    const { clock, spec } = this.#parts;
    const instances = this.#instances;
    const base = { config, signature, instances, statistics, log: SILENT, limits, clock };
    const batching = config.sequence_batching;
    if (batching === undefined)
      return new BatchScheduler({ ...base, strategy: spec.hasStrategy ? BUDGETED : undefined });
    return new SequenceScheduler({ ...base, batching, feed: new SequenceFeed(config, new Map()) });
  }

  #limits(limiter: RateLimiter | undefined): InstanceLimits | undefined {
    if (limiter === undefined) return undefined;
    const byInstance = new Map(this.#instances.map((instance, i) => [instance.name, this.#executors[i]]));
    return {
      limiter,
      executorOf: ({ name }) => byInstance.get(name) ?? { needs: [], priority: 0 },
    };
  }
}

function executorOf({ need, priority }: ModelSpec): Executor {
  return { needs: need === 0 ? [] : [{ name: "R", count: need, device: 0 }], priority };
}
