/**
 * The scheduler of an ensemble: every request starts its dataflow at once; its steps queue at their own models. A failure of a step
 * counts as one of the ensemble beside its own, as in Triton (qa/L0_model_queue, `test_policy_reject`).
 */
import type { ModelSignature } from "../../core/model-signature.ts";
import { type Clock, SYSTEM_CLOCK } from "../clock.ts";
import type { ExecutionTiming } from "../execution-timing.ts";
import { InFlight, stopping } from "../in-flight.ts";
import type { StatisticsCounter } from "../model-statistics.ts";
import type { ScheduledRequest } from "../scheduled-request.ts";
import type { Scheduler } from "../scheduler.ts";
import type { EnsemblePlan, EnsembleStep } from "./ensemble-plan.ts";
import { type EnsembleRoute, routeFor } from "./ensemble-route.ts";
import { type ComposingModel, EnsembleRun } from "./ensemble-run.ts";

export interface EnsembleSchedulerOptions {
  readonly plan: EnsemblePlan;
  readonly signature: ModelSignature;
  readonly statistics: StatisticsCounter;
  /** Resolves the model of a step at call time. @throws ServerError when it is not served */
  readonly model: (step: EnsembleStep) => ComposingModel;
  readonly maxWaitMs?: number;
  readonly clock?: Clock | undefined;
}

/** Triton's timeout for a step's request behind earlier ones, when their number is limited. */
const MAX_WAIT_MS = 300_000;

export class EnsembleScheduler implements Scheduler {
  readonly #options: EnsembleSchedulerOptions;
  readonly #inFlight = new InFlight();
  /** The route for all outputs. */
  readonly #wholeRoute: EnsembleRoute;

  constructor(options: EnsembleSchedulerOptions) {
    this.#options = options;
    this.#wholeRoute = routeFor(options.plan, options.signature.outputNames);
  }

  get inFlight(): number {
    return this.#inFlight.count;
  }

  enqueue(request: ScheduledRequest): void {
    if (this.#inFlight.isStopping) {
      request.refused();
      throw stopping();
    }
    this.#inFlight.begin();
    request.onEnd = () => this.#inFlight.end();
    const { clock = SYSTEM_CLOCK } = this.#options;
    const startMs = clock.nowMs();
    request.dequeued(startMs);
    const { plan, signature, statistics, model } = this.#options;
    new EnsembleRun({
      request,
      plan,
      signature,
      route: this.#routeOf(request),
      model,
      clock,
      maxWaitMs: this.#options.maxWaitMs ?? MAX_WAIT_MS,
      onDone: (compute) => {
        const timing = timingOf(startMs, compute);
        request.executed(timing);
        if (!request.failed) statistics.executed(request.batchSize, timing);
        else if (request.failureReason === "OTHER") statistics.failed("OTHER", clock.nowMs() - startMs);
      },
    }).start();
  }

  drain(): Promise<void> {
    return this.#inFlight.drain();
  }

  #routeOf({ request, outputNames }: ScheduledRequest): EnsembleRoute {
    return request.outputs.length === 0 ? this.#wholeRoute : routeFor(this.#options.plan, outputNames);
  }
}

/** An ensemble computes nothing itself: its times are the sums over its steps. */
function timingOf(startMs: number, compute: { input: number; infer: number; output: number }): ExecutionTiming {
  const computeStartMs = startMs + compute.input;
  const computeEndMs = computeStartMs + compute.infer;
  return { startMs, computeStartMs, computeEndMs, endMs: computeEndMs + compute.output };
}
