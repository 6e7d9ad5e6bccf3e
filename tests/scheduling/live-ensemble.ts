/** The ensemble of a scenario over the models as they are served at each moment, with a count of what runs for whom. */
import type { InferRequest } from "../../server/src/core/infer-request.ts";
import type { InferResponse } from "../../server/src/core/infer-response.ts";
import type { ModelConfig } from "../../server/src/core/model-config.ts";
import { type ModelSignature, signatureOf } from "../../server/src/core/model-signature.ts";
import { ServerError } from "../../server/src/core/server-error.ts";
import { planEnsemble } from "../../server/src/scheduler/ensemble/ensemble-plan.ts";
import type { ComposingModel } from "../../server/src/scheduler/ensemble/ensemble-run.ts";
import { EnsembleScheduler } from "../../server/src/scheduler/ensemble/ensemble-scheduler.ts";
import { StatisticsCounter } from "../../server/src/scheduler/model-statistics.ts";
import { type RequestContext, ScheduledRequest } from "../../server/src/scheduler/scheduled-request.ts";
import { expectedResponses, type Values } from "./expected-ensemble.ts";
import type { FateRules } from "./fate.ts";
import type { LiveModel } from "./live-model.ts";
import { isDecoupled, type ModelSpec } from "./model-spec.ts";
import type { VirtualClock } from "./virtual-clock.ts";
import type { Faults } from "./watch.ts";

export interface LiveEnsembleParts {
  readonly config: ModelConfig;
  readonly models: readonly ModelSpec[];
  readonly clock: VirtualClock;
  readonly fates: FateRules;
  readonly faults: Faults;
  readonly modelOf: (name: string) => LiveModel | undefined;
}

export class LiveEnsemble {
  readonly signature: ModelSignature;
  readonly context: RequestContext;
  readonly scheduler: EnsembleScheduler;
  readonly statistics: StatisticsCounter = new StatisticsCounter();
  readonly isDecoupled: boolean;
  readonly #parts: LiveEnsembleParts;
  /** Requests under way, by ensemble request and step. */
  readonly #running = new Map<string, number>();
  /** Ensemble requests of which a step did not end well. */
  readonly #broken = new Set<string>();

  constructor(parts: LiveEnsembleParts) {
    const { config, models, clock } = parts;
    const streams = new Set(models.filter(isDecoupled).map((spec) => spec.config.name));
    const plan = planEnsemble(config, (name) => streams.has(name));
    this.#parts = parts;
    this.isDecoupled = plan.isDecoupled;
    this.signature = signatureOf(config);
    this.context = {
      signature: this.signature,
      version: "1",
      statistics: this.statistics,
      decoupled: plan.isDecoupled,
      reshapesOutputs: false,
      isComposed: true,
      clock,
    };
    this.scheduler = new EnsembleScheduler({
      plan,
      signature: this.signature,
      statistics: this.statistics,
      clock,
      model: (step) => this.#composing(step.modelName, step.index),
    });
  }

  /** `wanted`: names of outputs, empty = all. */
  expected(serial: number, input: readonly number[], wanted: readonly string[]): Values[] {
    const { config, models, fates } = this.#parts;
    const outputs = wanted.length > 0 ? wanted : this.signature.outputNames;
    return expectedResponses({ config, models, fates, outputs }, serial, input);
  }

  isBroken(id: string): boolean {
    return this.#broken.has(id);
  }

  judgeEnd(): void {
    const { faults } = this.#parts;
    if (this.scheduler.inFlight !== 0) faults.add(`e: ${this.scheduler.inFlight} in flight at the end`);
    if (this.statistics.pending !== 0) faults.add(`e: ${this.statistics.pending} pending at the end`);
    for (const [key, count] of this.#running) if (count !== 0) faults.add(`e: ${count} requests of ${key} never ended`);
  }

  #composing(name: string, step: number): ComposingModel {
    const model = this.#parts.modelOf(name);
    if (model === undefined) throw new Error(`no model ${name}`);
    return {
      signature: model.signature,
      submit: (request, onTiming) => {
        const key = `${request.id}/${step}`;
        this.#begin(key);
        const scheduled = new ScheduledRequest(request, 1, model.context, onTiming);
        model.watch.arriving(scheduled, undefined);
        try {
          model.scheduler.enqueue(scheduled);
        } catch (error) {
          model.watch.refused(scheduled, ServerError.from(error));
          this.#broken.add(request.id);
          this.#end(key);
          throw error;
        }
        return this.#watched(request, key, scheduled);
      },
    };
  }

  async *#watched(request: InferRequest, key: string, scheduled: ScheduledRequest): AsyncGenerator<InferResponse> {
    try {
      for (;;) {
        const next = await scheduled.stream.next();
        if (next.done === true) return;
        if (next.value.error !== undefined) this.#broken.add(request.id);
        yield next.value;
      }
    } catch (error) {
      this.#broken.add(request.id);
      throw error;
    } finally {
      this.#end(key);
    }
  }

  #begin(key: string): void {
    const limit = this.#parts.config.ensemble_scheduling?.max_inflight_requests ?? 0;
    const running = (this.#running.get(key) ?? 0) + 1;
    this.#running.set(key, running);
    if (limit > 0 && running > limit) this.#parts.faults.add(`e: ${running} requests of ${key} at once`);
  }

  #end(key: string): void {
    this.#running.set(key, (this.#running.get(key) ?? 0) - 1);
  }
}
