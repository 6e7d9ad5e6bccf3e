/** Makes a scenario that shows a fault shorter, action by action, for as long as it shows one of the same kind. */
import type { Scenario } from "./scenario.ts";
import { noFigures, playScenario } from "./world.ts";

export interface Shrunk {
  readonly scenario: Scenario;
  readonly faults: readonly string[];
}

export async function shrink(scenario: Scenario, faults: readonly string[]): Promise<Shrunk> {
  const kind = kindOf(faults);
  let best: Shrunk = { scenario, faults };
  for (let size = Math.ceil(scenario.actions.length / 2); size > 0; size = Math.floor(size / 2)) {
    for (let at = 0; at < best.scenario.actions.length; ) {
      const actions = best.scenario.actions.filter((_, i) => i < at || i >= at + size);
      const shorter = { ...best.scenario, actions };
      const found = await playScenario(shorter, noFigures());
      if (kindOf(found) === kind) best = { scenario: shorter, faults: found };
      else at += size;
    }
  }
  return best;
}

/** All that is needed to see what happened, and to write a test of it. */
export function describe({ scenario, faults }: Shrunk): string {
  const { models, actions, ensemble, ...rest } = scenario;
  const targets = new Set(actions.flatMap((action) => ("target" in action ? [action.target] : [])));
  const shown = models.filter((_, i) => targets.has(i) || targets.has(-1));
  const lines = shown.map(
    ({ config: { name, max_batch_size, dynamic_batching, sequence_batching, ...more }, ...spec }) =>
      JSON.stringify({
        name,
        max_batch_size,
        decoupled: more.model_transaction_policy?.decoupled,
        dynamic_batching,
        sequence_batching: sequence_batching && { ...sequence_batching, control_input: undefined },
        ...spec,
      }),
  );
  const steps = targets.has(-1) ? [JSON.stringify(ensemble?.ensemble_scheduling)] : [];
  return [...faults, JSON.stringify(rest), ...lines, ...steps, ...actions.map((action) => JSON.stringify(action))].join(
    "\n",
  );
}

/** Without its numbers: a shorter scenario has others. */
function kindOf(faults: readonly string[]): string | undefined {
  return faults[0]?.replaceAll(/[\d.,[\]]+/g, "#");
}
