/** Makes native runs on the event loop where they are short, and on libuv's threads otherwise. Knows no tensors. */
import { RunPolicy } from "./run-policy.ts";
import type { RunTurns } from "./run-turns.ts";

const US_PER_MS = 1000;

/** One computation, in both of its forms. */
export interface NativeRun<Result> {
  readonly inputBytes: number;
  runSync(): Result;
  /** Buffers whose addresses C holds must stay referenced until it settles. */
  runAsync(): Promise<Result>;
}

/** One for each model version: what it learns is how long the model takes. */
export class NativeRunner {
  readonly #turns: RunTurns;
  readonly #policy = new RunPolicy();

  constructor(turns: RunTurns) {
    this.#turns = turns;
  }

  /** The result at once, when the run was made on the event loop. */
  run<Result>(run: NativeRun<Result>): Result | Promise<Result> {
    const { budget } = this.#turns;
    if (!budget.isLeft() || !this.#policy.maySync(run.inputBytes)) return this.#runElsewhere(run);
    const startMs = performance.now();
    try {
      return run.runSync();
    } finally {
      const us = (performance.now() - startMs) * US_PER_MS;
      this.#policy.ranSync(run.inputBytes, us);
      budget.spend(us);
    }
  }

  async #runElsewhere<Result>(run: NativeRun<Result>): Promise<Result> {
    const { gate } = this.#turns;
    await gate.enter();
    try {
      const startMs = performance.now();
      const result = await run.runAsync();
      this.#policy.ranAsync(run.inputBytes, (performance.now() - startMs) * US_PER_MS);
      return result;
    } finally {
      gate.leave();
    }
  }
}
