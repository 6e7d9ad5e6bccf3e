/**
 * Schedules executions under limited resources, `--rate-limit=execution_count`. Executors of all models share one
 * queue. The one with the lowest product of executions and priority goes first, and takes all resources that it needs at
 * once. Source: Triton documentation, "Rate Limiter". A pure state machine that knows no time, models or instances.
 */
import type { ResourceLimits, ResourceNeed } from "./resource-limits.ts";

/** An executor: an instance of a model. */
export interface Executor {
  readonly needs: readonly ResourceNeed[];
  /** Cost of an execution: with twice the priority value, an executor runs half as often. */
  readonly priority: number;
}

interface Member extends Executor {
  executions: number;
  state: "idle" | "waiting" | "running";
  onGranted: () => void;
}

export class RateLimiter {
  readonly #limits: ResourceLimits;
  readonly #members = new Map<Executor, Member>();
  /** In order of arrival. */
  readonly #waiting = new Set<Member>();
  #isGranting = false;

  constructor(limits: ResourceLimits) {
    this.#limits = limits;
  }

  /**
   * Registers all executors of a model version, or none. Later ones start at the current minimum count, so that they do
   * not catch up. @throws ServerError invalid_argument when one could never run
   */
  register(executors: readonly Executor[]): void {
    this.#limits.add(executors.map(({ needs }) => needs));
    let least = Number.POSITIVE_INFINITY;
    for (const member of this.#members.values()) least = Math.min(least, scoreOf(member));
    for (const executor of executors) {
      const { needs, priority } = executor;
      const executions = least === Number.POSITIVE_INFINITY ? 0 : Math.floor(least / weightOf(executor));
      this.#members.set(executor, { needs, priority, executions, state: "idle", onGranted: () => undefined });
    }
    this.#grant(undefined); // a resource without a limit may have grown
  }

  unregister(executors: readonly Executor[]): void {
    for (const executor of executors) {
      const member = this.#memberOf(executor);
      this.#waiting.delete(member);
      if (member.state === "running") this.#limits.release(member.needs);
      this.#members.delete(executor);
    }
    this.#limits.remove(executors.map(({ needs }) => needs));
    this.#grant(undefined);
  }

  /** Lower values execute sooner. */
  score(executor: Executor): number {
    return scoreOf(this.#memberOf(executor));
  }

  /** True: it may execute now. Otherwise it waits, and `onGranted` is called once when it may. */
  request(executor: Executor, onGranted: () => void): boolean {
    const member = this.#memberOf(executor);
    if (member.state !== "idle") throw new Error(`an executor that is ${member.state} asked to execute`);
    member.state = "waiting";
    member.onGranted = onGranted;
    this.#waiting.add(member);
    return this.#grant(member);
  }

  /**
   * Its execution is over: returns its resources. `askAgain` lets its model ask for the next execution before anybody
   * gets them; else models that share a resource would alternate, whatever their priorities. Source: core,
   * rate_limiter.cc, `OnRelease` stages the next request and then allocates.
   */
  release(executor: Executor, askAgain: () => void): void {
    const isOutermost = !this.#isGranting;
    this.#isGranting = true;
    try {
      this.giveBack(executor, true);
      askAgain();
    } finally {
      if (isOutermost) this.#isGranting = false;
    }
    this.#grant(undefined);
  }

  /** Returns its resources, or withdraws its request. `hasExecuted` false: the grant was not used. */
  giveBack(executor: Executor, hasExecuted: boolean): void {
    const member = this.#members.get(executor); // an executor whose model was removed has already returned its resources
    if (member === undefined || member.state === "idle") return;
    const { state } = member;
    member.state = "idle";
    this.#waiting.delete(member);
    if (state === "running") this.#limits.release(member.needs);
    if (hasExecuted) member.executions += 1;
    this.#grant(undefined);
  }

  /** Grants those for whom resources suffice. True when `requester` is among them. */
  #grant(requester: Member | undefined): boolean {
    if (this.#isGranting) return false; // the running loop already sees new requests
    this.#isGranting = true;
    try {
      for (let next = this.#first(); next !== undefined && this.#limits.take(next.needs); next = this.#first()) {
        this.#waiting.delete(next);
        next.state = "running";
        if (next !== requester) next.onGranted();
      }
    } finally {
      this.#isGranting = false;
    }
    return requester?.state === "running";
  }

  #first(): Member | undefined {
    let first: Member | undefined;
    for (const member of this.#waiting) {
      if (first === undefined || scoreOf(member) < scoreOf(first)) first = member;
    }
    return first;
  }

  #memberOf(executor: Executor): Member {
    const member = this.#members.get(executor);
    if (member === undefined) throw new Error("an executor was not registered with the rate limiter");
    return member;
  }
}

function weightOf({ priority }: Executor): number {
  return Math.max(1, priority);
}

function scoreOf(member: Member): number {
  return member.executions * weightOf(member);
}
