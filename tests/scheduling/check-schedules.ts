/** Plays scenario after scenario; stops at the first one with a fault and says how to see it again, as short as it can be made. */
import { createScenario } from "./scenario.ts";
import { describe, shrink } from "./shrink.ts";
import { type Figures, noFigures, playScenario } from "./world.ts";

export interface Range {
  readonly firstSeed: number;
  readonly count: number;
  /** On the clock of performance.now(). */
  readonly deadlineMs: number;
}

/** Failures on purpose are many, and nobody reads their stacks. */
const STACK_LINES = 0;

/** @throws Error with the scenario that shows a fault */
export async function checkSchedules({ firstSeed, count, deadlineMs }: Range): Promise<Figures> {
  const figures = noFigures();
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = STACK_LINES;
  try {
    for (let i = 0; i < count && performance.now() < deadlineMs; i += 1) {
      const scenario = createScenario(firstSeed + i);
      const faults = await playScenario(scenario, figures);
      if (faults.length > 0) throw new Error(`seed ${firstSeed + i}: ${describe(await shrink(scenario, faults))}`);
      figures.schedules += 1;
    }
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
  return figures;
}
