/** Runs one batch on one instance and settles the requests that the backend left open. */
import type { BackendRequest, Batch, ModelInstance } from "../backend/backend.ts";
import { describeThrown, ServerError } from "../core/server-error.ts";
import type { Logger } from "../observe/log.ts";
import { type Clock, SYSTEM_CLOCK } from "./clock.ts";
import type { ExecutionTiming } from "./execution-timing.ts";
import type { StatisticsCounter } from "./model-statistics.ts";

/** The interface that an execution needs: a client's request, or padding for a row of a batch. */
export interface ExecutableRequest extends BackendRequest {
  readonly ended: boolean;
  readonly failed: boolean;
  /** The backend wants to run it again later, so a missing final response is no fault. */
  readonly isGivenBack?: boolean;
  /** The request leaves the queue for a backend. */
  dequeued(nowMs: number): void;
  /** Its execution is over. */
  executed(timing: ExecutionTiming): void;
}

class Execution implements Batch {
  readonly requests: readonly ExecutableRequest[];
  readonly batchSize: number;
  readonly startMs: number;
  readonly #clock: Clock;
  #computeStartMs = -1;
  #computeEndMs = -1;

  constructor(requests: readonly ExecutableRequest[], clock: Clock) {
    this.requests = requests;
    this.#clock = clock;
    this.startMs = clock.nowMs();
    let rows = 0;
    for (const request of requests) rows += request.batchSize;
    this.batchSize = rows;
  }

  computeStarted(atMs: number = this.#clock.nowMs()): void {
    this.#computeStartMs = Math.max(atMs, this.startMs);
  }

  computeEnded(atMs: number = this.#clock.nowMs()): void {
    this.#computeEndMs = Math.max(atMs, this.#computeStartMs);
  }

  /** A backend without its own timing counts all time as inference. */
  timing(goesOn: boolean): ExecutionTiming {
    const endMs = this.#clock.nowMs();
    const computeStartMs = this.#computeStartMs < 0 ? this.startMs : this.#computeStartMs;
    const computeEndMs = this.#computeEndMs < 0 ? endMs : this.#computeEndMs;
    return { startMs: this.startMs, computeStartMs, computeEndMs, endMs, goesOn };
  }
}

export interface ExecutionOptions {
  readonly instance: ModelInstance;
  readonly requests: readonly ExecutableRequest[];
  readonly statistics: StatisticsCounter;
  readonly decoupled: boolean;
  readonly log: Logger;
  readonly clock?: Clock | undefined;
}

/** Undefined when the batch ran synchronously; otherwise settles, never rejecting, when the instance is free again. */
export function execute(options: ExecutionOptions): Promise<void> | undefined {
  const { requests, instance } = options;
  const execution = new Execution(requests, options.clock ?? SYSTEM_CLOCK);
  options.log.verbose(1, "backend_model_instance", () => describeExecution(options));
  for (const request of requests) request.dequeued(execution.startMs);
  let running: Promise<void> | undefined;
  try {
    running = instance.execute(execution);
  } catch (thrown) {
    failAll(options, thrown);
  }
  if (running === undefined) {
    finish(options, execution);
    return undefined;
  }
  return running.catch((thrown: unknown) => failAll(options, thrown)).then(() => finish(options, execution));
}

/** As Triton's backends log it. Source: python_be.cc and onnxruntime.cc, `TRITONBACKEND_ModelInstanceExecute`. */
function describeExecution({ instance, requests }: ExecutionOptions): string {
  const model = requests[0]?.request.modelName ?? "";
  return `model ${model}, instance ${instance.name}, executing ${requests.length} requests`;
}

function finish(options: ExecutionOptions, execution: Execution): void {
  const answersLater = options.instance.answersLater === true;
  const timing = execution.timing(answersLater);
  let succeeded = false;
  const isOver = !options.decoupled && !answersLater;
  for (const request of options.requests) {
    if (!request.ended && isOver && request.isGivenBack !== true) {
      const text = `model instance '${options.instance.name}' ended its execution without answering the request`;
      request.fail(new ServerError("internal", text, { reason: "BACKEND" }));
    }
    request.executed(timing);
    succeeded ||= !request.failed;
  }
  if (succeeded) options.statistics.executed(execution.batchSize, timing);
}

function failAll(options: ExecutionOptions, thrown: unknown): void {
  const error = ServerError.from(thrown);
  if (!(thrown instanceof ServerError)) {
    options.log.error("execution", `model instance '${options.instance.name}' failed: ${describeThrown(thrown)}`);
  }
  const failure = new ServerError(error.code, error.message, { cause: thrown, reason: "BACKEND" });
  for (const request of options.requests) request.fail(failure);
}
