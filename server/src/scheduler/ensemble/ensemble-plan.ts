/**
 * An ensemble as a dataflow graph: which step feeds which, and where decoupled steps fork. Source: Triton
 * documentation, "Ensemble Models". A decoupled step answers many times; each answer starts an iteration of the steps
 * behind it. The *origin* of a step is the decoupled step that drives it; undefined: the request. Steps fed by two
 * unrelated origins are refused. Pure.
 */
import type { ModelConfig } from "../../core/model-config.ts";
import { invalidArgument } from "../../core/server-error.ts";

export interface EnsembleStep {
  readonly index: number;
  readonly modelName: string;
  /** "" = the latest. */
  readonly modelVersion: string;
  /** Input of the model -> tensor of the ensemble. */
  readonly inputs: ReadonlyMap<string, string>;
  /** Output of the model -> tensor of the ensemble. */
  readonly outputs: ReadonlyMap<string, string>;
  readonly isDecoupled: boolean;
  /** Index of the decoupled step that drives this one. */
  readonly origin: number | undefined;
}

export interface EnsemblePlan {
  readonly steps: readonly EnsembleStep[];
  /** Tensor of the ensemble -> step that makes it; those without are inputs of the ensemble. */
  readonly producers: ReadonlyMap<string, number>;
  readonly isDecoupled: boolean;
  /** Maximum concurrent requests of one step per ensemble request; 0 = no limit. */
  readonly maxInFlight: number;
}

/** @throws ServerError invalid_argument when the steps form a cycle, or when a step or the outputs join two streams */
export function planEnsemble(
  config: ModelConfig,
  isDecoupled: (modelName: string, step: number) => boolean,
): EnsemblePlan {
  const written = config.ensemble_scheduling?.step ?? [];
  const producers = new Map<string, number>();
  for (const [index, step] of written.entries()) {
    for (const tensor of Object.values(step.output_map)) producers.set(tensor, index);
  }
  const order = topologicalOrder(config, producers);
  const steps: EnsembleStep[] = [];
  for (const index of order) {
    const step = written[index];
    if (step === undefined) throw new Error(`no step ${index}`);
    const decoupled = isDecoupled(step.model_name, index);
    const feeders = feedersOf(step.input_map, producers).map((feeder) => stepOf(steps, feeder));
    steps.push({
      index,
      modelName: step.model_name,
      modelVersion: step.model_version > 0 ? String(step.model_version) : "",
      inputs: new Map(Object.entries(step.input_map)),
      outputs: new Map(Object.entries(step.output_map)),
      isDecoupled: decoupled,
      origin: originOf(config.name, step.model_name, feeders, steps),
    });
  }
  const makers = config.output.flatMap(({ name }) => producers.get(name) ?? []).map((maker) => stepOf(steps, maker));
  originOf(config.name, config.name, makers, steps); // a response needs outputs of one stream
  const maxInFlight = config.ensemble_scheduling?.max_inflight_requests ?? 0;
  steps.sort((a, b) => a.index - b.index);
  return { steps, producers, isDecoupled: steps.some((step) => step.isDecoupled), maxInFlight };
}

function feedersOf(inputs: Readonly<Record<string, string>>, producers: ReadonlyMap<string, number>): number[] {
  return [...new Set(Object.values(inputs).flatMap((tensor) => producers.get(tensor) ?? []))];
}

function stepOf(steps: readonly EnsembleStep[], index: number): EnsembleStep {
  const found = steps.find((step) => step.index === index);
  if (found === undefined) throw new Error(`step ${index} is not ordered yet`);
  return found;
}

/** Chain of origins, innermost first. */
function lineage(origin: number | undefined, steps: readonly EnsembleStep[]): number[] {
  return origin === undefined ? [] : [origin, ...lineage(stepOf(steps, origin).origin, steps)];
}

/**
 * The innermost origin among the feeders; all others must be on its chain. `model`: the one that is fed, or the ensemble
 * itself for its outputs. @throws ServerError invalid_argument
 */
function originOf(
  ensemble: string,
  model: string,
  feeders: readonly EnsembleStep[],
  steps: readonly EnsembleStep[],
): number | undefined {
  const origins = feeders.map((feeder) => (feeder.isDecoupled ? feeder.index : feeder.origin));
  const chains = origins.map((origin) => lineage(origin, steps)).sort((a, b) => b.length - a.length);
  const longest = chains[0] ?? [];
  for (const origin of origins) {
    if (origin === undefined || longest.includes(origin)) continue;
    throw invalidArgument(
      `in ensemble ${ensemble}, step of model '${model}' receives inputs originated from different decoupled models`,
    );
  }
  return longest[0];
}

function topologicalOrder(config: ModelConfig, producers: ReadonlyMap<string, number>): number[] {
  const written = config.ensemble_scheduling?.step ?? [];
  const order: number[] = [];
  const state = new Map<number, "open" | "done">();
  const visit = (index: number): void => {
    if (state.get(index) === "done") return;
    if (state.get(index) === "open") {
      throw invalidArgument(`in ensemble '${config.name}', steps form a cycle`);
    }
    state.set(index, "open");
    for (const feeder of feedersOf(written[index]?.input_map ?? {}, producers)) visit(feeder);
    state.set(index, "done");
    order.push(index);
  };
  for (const index of written.keys()) visit(index);
  return order;
}

/** Steps that consume an output of this one. */
export function nextSteps(plan: EnsemblePlan, { outputs }: EnsembleStep): readonly number[] {
  const made = new Set(outputs.values());
  return plan.steps.filter(({ inputs }) => [...inputs.values()].some((tensor) => made.has(tensor))).map((s) => s.index);
}

/** Steps that can influence one of the requested outputs. */
export function neededSteps(plan: EnsemblePlan, outputs: readonly string[]): ReadonlySet<number> {
  const needed = new Set<number>();
  const visit = (tensor: string): void => {
    const index = plan.producers.get(tensor);
    if (index === undefined || needed.has(index)) return;
    needed.add(index);
    for (const input of plan.steps[index]?.inputs.values() ?? []) visit(input);
  };
  for (const output of outputs) visit(output);
  return needed;
}
