/**
 * The expected responses of an ensemble without failures, computed without queues: each response of a decoupled step
 * opens an iteration of the steps behind it. Complete iterations respond in the order in which they were opened.
 */
import type { ModelConfig } from "../../server/src/core/model-config.ts";
import { type EnsembleStep, neededSteps, planEnsemble } from "../../server/src/scheduler/ensemble/ensemble-plan.ts";
import { type FateRules, fateOf } from "./fate.ts";
import { isDecoupled, type ModelSpec } from "./model-spec.ts";
import { answerOf } from "./played-instance.ts";

export type Values = ReadonlyMap<string, readonly number[]>;

export interface EnsembleQuestion {
  readonly config: ModelConfig;
  readonly models: readonly ModelSpec[];
  readonly fates: FateRules;
  /** Names of those that are wanted. */
  readonly outputs: readonly string[];
}

/** Output by output, response by response. */
export function expectedResponses(question: EnsembleQuestion, serial: number, input: readonly number[]): Values[] {
  return new Expectation(question, serial).run(new Map([["IN", input]]), undefined);
}

class Expectation {
  readonly #question: EnsembleQuestion;
  readonly #steps: readonly EnsembleStep[];
  readonly #serial: number;

  constructor(question: EnsembleQuestion, serial: number) {
    const { config, models, outputs } = question;
    const streams = new Set(models.filter(isDecoupled).map((spec) => spec.config.name));
    const plan = planEnsemble(config, (name) => streams.has(name));
    const needed = neededSteps(plan, outputs);
    this.#question = question;
    this.#steps = plan.steps.filter(({ index }) => needed.has(index));
    this.#serial = serial;
  }

  /** The answers of one iteration. */
  run(tensors: Map<string, readonly number[]>, origin: number | undefined): Values[] {
    const due = this.#steps.filter((step) => step.origin === origin);
    const single = due.filter((step) => !step.isDecoupled);
    for (let left = single.length; left > 0; left -= 1) {
      for (const step of single) if (hasAll(step, tensors)) put(step, tensors, outputOf(step, tensors, 0));
    }
    const stream = due.find((step) => step.isDecoupled);
    if (stream === undefined) return [new Map(this.#question.outputs.map((name) => [name, tensors.get(name) ?? []]))];
    return Array.from({ length: this.#numResponses(stream, tensors) }, (_, k) => {
      const inner = new Map(tensors);
      put(stream, inner, outputOf(stream, tensors, k));
      return this.run(inner, stream.index);
    }).flat();
  }

  #numResponses(step: EnsembleStep, tensors: Values): number {
    const index = this.#question.models.findIndex(({ config }) => config.name === step.modelName);
    return fateOf(this.#question.fates, index, this.#serial, valuesOf(step, "X", tensors)[0] ?? 0).numResponses;
  }
}

function hasAll(step: EnsembleStep, tensors: Values): boolean {
  return [...step.inputs.values()].every((tensor) => tensors.has(tensor));
}

function put(step: EnsembleStep, tensors: Map<string, readonly number[]>, y: readonly number[]): void {
  for (const tensor of step.outputs.values()) tensors.set(tensor, y);
}

function outputOf(step: EnsembleStep, tensors: Values, response: number): readonly number[] {
  return answerOf(valuesOf(step, "X", tensors), valuesOf(step, "Z", tensors)[0] ?? 0, response);
}

function valuesOf(step: EnsembleStep, input: string, tensors: Values): readonly number[] {
  return tensors.get(step.inputs.get(input) ?? "") ?? [];
}
