/**
 * The instances of a model version that may take a batch. Picks the lowest-numbered free one, like Triton. Instances
 * that answer after their execution are picked by load; with a rate limiter, only one with granted resources. Passive
 * instances are not in the pool.
 */
import type { ModelInstance } from "../backend/backend.ts";
import type { Executor, RateLimiter } from "./rate-limiter.ts";
import type { LeavingInstance } from "./scheduler.ts";

/** The instances as executors registered with a rate limiter. */
export interface InstanceLimits {
  readonly limiter: RateLimiter;
  readonly executorOf: (instance: ModelInstance) => Executor;
}

const NOBODY_ASKS = (): void => undefined;

interface Idle {
  readonly instance: ModelInstance;
  readonly rank: number;
}

export class InstancePool {
  /** Highest number first. */
  #idle: Idle[];
  #ranks: ReadonlyMap<ModelInstance, number>;
  /** Instances removed while they ran, and the callbacks that wait for them. */
  readonly #leaving = new Map<ModelInstance, () => void>();
  readonly #limits: InstanceLimits | undefined;
  readonly #onGranted: () => void;
  /** The instance that has requested its resources, and whether they were granted. */
  #asked: { readonly instance: ModelInstance; isGranted: boolean } | undefined;

  /** `onGranted`: a batch that had to wait may start now. */
  constructor(instances: readonly ModelInstance[], limits?: InstanceLimits, onGranted: () => void = () => undefined) {
    this.#ranks = new Map(instances.map((instance, rank) => [instance, rank]));
    this.#idle = instances.map((instance, rank) => ({ instance, rank })).reverse();
    this.#limits = limits;
    this.#onGranted = onGranted;
  }

  get hasIdle(): boolean {
    return this.#idle.length > 0 || this.#asked !== undefined;
  }

  /** The lowest-numbered free instance, which stays free. Without a limiter only. */
  peek(): ModelInstance | undefined {
    return this.#idle.at(-1)?.instance;
  }

  get size(): number {
    return this.#ranks.size;
  }

  /** Requests an instance for a batch; true when one may run it now. */
  admit(): boolean {
    if (this.#limits === undefined) return this.#idle.length > 0;
    if (this.#asked !== undefined) return this.#asked.isGranted;
    const { limiter, executorOf } = this.#limits;
    const instance = this.#takeLeastUsed(({ instance }) => limiter.score(executorOf(instance)));
    if (instance === undefined) return false;
    const asked = { instance, isGranted: false };
    this.#asked = asked;
    asked.isGranted = limiter.request(executorOf(instance), () => {
      asked.isGranted = true;
      this.#onGranted();
    });
    return asked.isGranted;
  }

  /** There is no batch: returns what was requested or granted. */
  forgo(): void {
    if (this.#asked === undefined) return;
    const { instance } = this.#asked;
    this.#asked = undefined;
    this.#putBack(instance);
    this.#limits?.limiter.giveBack(this.#limits.executorOf(instance), false);
  }

  /** The instance for an admitted batch. */
  acquire(): ModelInstance | undefined {
    if (this.#limits === undefined) return this.#takeLeastLoaded();
    if (this.#asked?.isGranted !== true) return undefined;
    const { instance } = this.#asked;
    this.#asked = undefined;
    return instance;
  }

  /** Replaces the instances, which a limiter knows, and returns those that are removed. */
  replace(instances: readonly ModelInstance[]): readonly LeavingInstance[] {
    this.forgo();
    const known = [...this.#ranks.keys()];
    const idle = new Set(this.#idle.map(({ instance }) => instance));
    const ranked = instances.map((instance, rank): Idle => ({ instance, rank }));
    this.#ranks = new Map(ranked.map(({ instance, rank }) => [instance, rank]));
    this.#idle = ranked.filter(({ instance }) => idle.has(instance) || !known.includes(instance)).reverse();
    const removed = known.filter((instance) => !this.#ranks.has(instance));
    return removed.map((instance) => ({
      instance,
      idle: idle.has(instance) ? Promise.resolve() : new Promise<void>((left) => this.#leaving.set(instance, left)),
    }));
  }

  /** The instance has finished its batch. `askAgain`: admits the next batch if there is one, before other models do. */
  release(instance: ModelInstance, askAgain: () => void = NOBODY_ASKS): void {
    const left = this.#leaving.get(instance);
    if (left === undefined) this.#putBack(instance);
    else this.#leaving.delete(instance);
    if (this.#limits !== undefined) this.#limits.limiter.release(this.#limits.executorOf(instance), askAgain);
    left?.();
  }

  #takeLeastLoaded(): ModelInstance | undefined {
    if (this.#idle.length < 2 || this.#idle[0]?.instance.load === undefined) return this.#idle.pop()?.instance;
    return this.#takeLeastUsed(({ instance }) => instance.load?.() ?? 0);
  }

  #takeLeastUsed(scoreOf: (idle: Idle) => number): ModelInstance | undefined {
    let best = -1;
    let least = Number.POSITIVE_INFINITY;
    for (const [at, idle] of this.#idle.entries()) {
      const score = scoreOf(idle);
      if (score > least) continue;
      best = at;
      least = score;
    }
    return best < 0 ? undefined : this.#idle.splice(best, 1)[0]?.instance;
  }

  #putBack(instance: ModelInstance): void {
    const rank = this.#ranks.get(instance);
    if (rank === undefined) throw new Error(`instance '${instance.name}' does not belong to this pool`);
    this.#idle.push({ instance, rank });
    for (let i = this.#idle.length - 1; i > 0; i -= 1) {
      const [low, high] = [this.#idle[i - 1], this.#idle[i]];
      if (low === undefined || high === undefined || low.rank > high.rank) break;
      this.#idle[i - 1] = high;
      this.#idle[i] = low;
    }
  }
}
