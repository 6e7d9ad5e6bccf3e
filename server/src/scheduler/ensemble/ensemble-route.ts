/** Selects the ensemble steps, and their outputs, that the requested outputs need. Pure. */
import { type EnsemblePlan, neededSteps } from "./ensemble-plan.ts";

export interface EnsembleRoute {
  /** Numbers of the steps to run. */
  readonly needed: ReadonlySet<number>;
  /** By step number: outputs of its model that are consumed. */
  readonly outputs: ReadonlyMap<number, readonly string[]>;
}

export function routeFor(plan: EnsemblePlan, wanted: readonly string[]): EnsembleRoute {
  const needed = neededSteps(plan, wanted);
  const taken = new Set(wanted);
  for (const { index, inputs } of plan.steps) {
    if (needed.has(index)) for (const tensor of inputs.values()) taken.add(tensor);
  }
  const outputs = new Map<number, readonly string[]>();
  for (const { index, outputs: made } of plan.steps) {
    if (!needed.has(index)) continue;
    outputs.set(
      index,
      [...made].filter(([, tensor]) => taken.has(tensor)).map(([output]) => output),
    );
  }
  return { needed, outputs };
}
