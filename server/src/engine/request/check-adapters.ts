/** Checks that the adapters which a step names are there. Pure. */
import type { StepSequence } from "../step-runner.ts";

/** @throws Error naming the first sequence whose adapter is not among those loaded */
export function checkAdapters(sequences: readonly StepSequence[], loaded: ReadonlyMap<number, unknown>): void {
  for (const [i, { adapter }] of sequences.entries()) {
    if (adapter !== undefined && !loaded.has(adapter))
      throw new Error(`step: sequences[${i}].adapter: no adapter ${adapter} is loaded`);
  }
}
