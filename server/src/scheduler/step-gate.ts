/**
 * Limits the concurrent requests of each ensemble step (max_inflight_requests of ModelEnsembling). The rest wait in
 * order, so that a fast producer cannot fill the memory. Knows step numbers, not ensembles.
 */
import type { Clock } from "./clock.ts";

interface Step {
  running: number;
  readonly waiting: (() => void)[];
  /** Callbacks for the time when nobody waits any more. */
  readonly onRoom: (() => void)[];
}

export interface StepGateOptions {
  readonly clock: Clock;
  /** 0 = no limit. */
  readonly limit: number;
  readonly maxWaitMs: number;
  /** A request exceeded its wait; it keeps waiting, unless the listener ends everything. */
  readonly onTimeout: (step: number) => void;
}

export class StepGate {
  readonly #options: StepGateOptions;
  readonly #steps = new Map<number, Step>();

  constructor(options: StepGateOptions) {
    this.#options = options;
  }

  /** Calls `launch` at once, or when earlier requests of the step have ended. */
  enter(index: number, launch: () => void): void {
    const { clock, limit, maxWaitMs, onTimeout } = this.#options;
    if (limit === 0) {
      launch();
      return;
    }
    const step = this.#step(index);
    if (step.running < limit) {
      step.running += 1;
      launch();
      return;
    }
    const callOff = clock.after(maxWaitMs, () => onTimeout(index));
    step.waiting.push(() => {
      callOff();
      launch();
    });
  }

  /** A launched request has ended. */
  leave(index: number): void {
    if (this.#options.limit === 0) return;
    const step = this.#step(index);
    const next = step.waiting.shift();
    if (next === undefined) step.running -= 1;
    if (step.waiting.length === 0) for (const tell of step.onRoom.splice(0)) tell();
    next?.();
  }

  /** Resolves when no request of these steps waits; undefined when none does. */
  room(indices: readonly number[]): Promise<unknown> | undefined {
    const full = indices.map((index) => this.#steps.get(index)).filter((step) => step !== undefined);
    const waits = full.filter(({ waiting }) => waiting.length > 0);
    if (waits.length === 0) return undefined;
    return Promise.all(waits.map(({ onRoom }) => new Promise<void>((resolve) => onRoom.push(resolve))));
  }

  #step(index: number): Step {
    let step = this.#steps.get(index);
    if (step === undefined) {
      step = { running: 0, waiting: [], onRoom: [] };
      this.#steps.set(index, step);
    }
    return step;
  }
}
