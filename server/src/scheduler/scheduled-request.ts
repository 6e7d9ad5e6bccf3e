/**
 * A request inside a scheduler: the backend's view, its end, and its bookkeeping. Exactly one final response or failure
 * ends it; anything later is dropped.
 */
import type { BackendResponse, ResponseReport } from "../backend/backend.ts";
import type { InferRequest } from "../core/infer-request.ts";
import { NO_PARAMETERS } from "../core/infer-request.ts";
import type { InferResponse } from "../core/infer-response.ts";
import type { ModelSignature } from "../core/model-signature.ts";
import { ResponseStream } from "../core/response-stream.ts";
import type { FailureReason, ServerError } from "../core/server-error.ts";
import type { Tensor } from "../core/tensor.ts";
import type { Logger } from "../observe/log.ts";
import { clientShape } from "./client-shape.ts";
import { type Clock, SYSTEM_CLOCK } from "./clock.ts";
import { describeStep, type RequestState } from "./describe-request.ts";
import type { ExecutableRequest } from "./execution.ts";
import type { ExecutionTiming } from "./execution-timing.ts";
import type { StatisticsCounter } from "./model-statistics.ts";

/** Context shared by all requests of a model version. */
export interface RequestContext {
  readonly signature: ModelSignature;
  readonly version: string;
  readonly statistics: StatisticsCounter;
  readonly decoupled: boolean;
  /** True when an output needs a reshape from the model's to the client's shape. */
  readonly reshapesOutputs: boolean;
  /** For an ensemble: other models compute, so their times are durations and not points in time. */
  readonly isComposed?: boolean;
  readonly clock?: Clock | undefined;
  /** Absent: nothing is logged. */
  readonly log?: Logger;
}

const NO_OUTPUTS: readonly Tensor[] = [];

export class ScheduledRequest implements ExecutableRequest {
  readonly request: InferRequest;
  readonly batchSize: number;
  readonly outputNames: readonly string[];
  readonly stream: ResponseStream = new ResponseStream();
  readonly queuedMs: number;
  readonly #context: RequestContext;
  readonly #clock: Clock;
  readonly #onTiming: ((timing: ExecutionTiming, queueMs: number) => void) | undefined;
  #onEnd: (() => void) | undefined;
  #onOutputs: ((outputs: readonly Tensor[]) => number) | undefined;
  /** Set while an earlier request of an ordered model has not ended: responses are held here. */
  #held: InferResponse[] | undefined;
  #heldFailure: ServerError | undefined;
  #ended = false;
  #hasAnswered = false;
  /** Outputs of the last response, if all were wanted. */
  #lastOutputs: readonly Tensor[] = NO_OUTPUTS;
  #isTraceOver = false;
  #failure: ServerError | undefined;
  #endMs = 0;
  #numReported = 0;
  #dequeuedMs = -1;
  #timing: ExecutionTiming | undefined;

  constructor(
    request: InferRequest,
    batchSize: number,
    context: RequestContext,
    onTiming?: (timing: ExecutionTiming, queueMs: number) => void,
  ) {
    this.request = request;
    this.batchSize = batchSize;
    this.outputNames = wantedOutputs(request.outputs, context.signature);
    this.#clock = context.clock ?? SYSTEM_CLOCK;
    this.queuedMs = this.#clock.nowMs();
    this.#context = context;
    this.#onTiming = onTiming;
    context.statistics.accepted();
    this.#note("INITIALIZED", "PENDING");
    const { trace } = request;
    if (trace === undefined) return;
    trace.mark("QUEUE_START", this.queuedMs);
    trace.tensors("TENSOR_QUEUE_INPUT", request.inputs);
  }

  get ended(): boolean {
    return this.#ended;
  }

  get failed(): boolean {
    return this.#failure !== undefined;
  }

  /** Undefined for a request that has not failed. */
  get failureReason(): FailureReason | undefined {
    return this.#failure?.reason;
  }

  /** Called once, when the request has ended; set by the owning scheduler. */
  set onEnd(listener: () => void) {
    this.#onEnd = listener;
  }

  /** Receives the outputs of a successful response, for the response cache; returns the total cache time in ms. */
  set onOutputs(listener: (outputs: readonly Tensor[]) => number) {
    this.#onOutputs = listener;
  }

  /** A cached response: this request never queues. */
  answerFromCache(outputs: readonly Tensor[], lookupMs: number): void {
    const { signature, version, statistics } = this.#context;
    this.#ended = true;
    const parameters = NO_PARAMETERS;
    const { id } = this.request;
    this.stream.push({
      modelName: signature.modelName,
      modelVersion: version,
      id,
      parameters,
      outputs,
      final: true,
      empty: false,
    });
    const nowMs = this.#clock.nowMs();
    statistics.dequeued();
    statistics.cacheHit(nowMs - this.request.arrivalMs, nowMs - this.queuedMs, lookupMs);
    this.request.trace?.mark("INFER_RESPONSE_COMPLETE", nowMs);
    this.#endTrace();
  }

  /** The request leaves the queue for a backend. */
  dequeued(nowMs: number): void {
    if (this.#dequeuedMs >= 0) return;
    this.#dequeuedMs = nowMs;
    this.#context.statistics.dequeued();
    if (!this.#ended) this.#note("PENDING", "EXECUTING");
    const { trace, inputs } = this.request;
    if (trace !== undefined && !this.#ended && !this.#isComposed) trace.tensors("TENSOR_BACKEND_INPUT", inputs);
  }

  /** The scheduler refused the request: it was never in the queue. */
  refused(): void {
    this.#ended = true;
    this.#context.statistics.dequeued();
    this.#context.statistics.rejected();
    this.#endTrace();
  }

  /** Its execution is over. Statistics are complete when the request has both ended and been executed. */
  executed(timing: ExecutionTiming): void {
    this.#timing = timing;
    this.#traceExecution(timing);
    if (!this.#ended) return;
    this.#account();
    this.#endTrace();
  }

  /** The execution did not end it: it will be executed again, and the last execution counts. */
  givenBack(): void {
    this.#timing = undefined;
  }

  respond(response: BackendResponse): void {
    if (this.#ended) return;
    const outputs = this.#outputsFor(response.outputs);
    const { error, release } = response;
    const { trace } = this.request;
    if (trace !== undefined && !this.#isComposed) trace.tensors("TENSOR_BACKEND_OUTPUT", outputs);
    if (!this.#hasAnswered) this.#noteFirstResponse();
    if (error === undefined && this.#onOutputs !== undefined) {
      this.#context.statistics.cacheMissed(this.#onOutputs(outputs));
    }
    this.#emit({
      modelName: this.#context.signature.modelName,
      modelVersion: this.#context.version,
      id: this.request.id,
      parameters: response.parameters ?? NO_PARAMETERS,
      outputs,
      error,
      final: response.final,
      empty: this.#context.decoupled && response.final && response.outputs.length === 0 && error === undefined,
      release,
    });
    trace?.mark("INFER_RESPONSE_COMPLETE", this.#clock.nowMs());
    if (response.final) this.#end(error);
  }

  fail(error: ServerError): void {
    if (this.#ended) return;
    if (this.#held === undefined) this.stream.fail(error);
    else this.#heldFailure = error;
    this.#end(error);
  }

  reportResponse(report: ResponseReport): void {
    this.#context.statistics.responded(this.#numReported, report);
    this.#numReported += 1;
  }

  drained(): Promise<void> | undefined {
    return this.stream.drained();
  }

  /** Holds responses back until `release`. Only before the first response. */
  hold(): void {
    this.#held = [];
  }

  release(): void {
    const held = this.#held;
    if (held === undefined) return;
    this.#held = undefined;
    for (const response of held) this.stream.push(response);
    if (this.#heldFailure !== undefined) this.stream.fail(this.#heldFailure);
  }

  #noteFirstResponse(): void {
    this.#hasAnswered = true;
    this.#context.statistics.latencies?.firstResponse(this.#clock.nowMs() - this.request.arrivalMs);
  }

  #emit(response: InferResponse): void {
    if (this.#held === undefined) this.stream.push(response);
    else this.#held.push(response);
  }

  #end(failure: ServerError | undefined): void {
    this.#ended = true;
    this.#note(this.#dequeuedMs < 0 ? "PENDING" : "EXECUTING", "RELEASED");
    this.#failure = failure;
    this.#endMs = this.#clock.nowMs();
    const wasTaken = this.#dequeuedMs >= 0;
    this.dequeued(this.#endMs);
    if (!wasTaken || this.#timing !== undefined) this.#endTrace();
    if (failure !== undefined || this.#timing !== undefined) this.#account();
    this.#onEnd?.();
  }

  #note(from: RequestState, to: RequestState): void {
    this.#context.log?.verbose(2, "infer_request", () => describeStep(this.request, from, to));
  }

  get #isComposed(): boolean {
    return this.#context.isComposed === true;
  }

  #traceExecution(timing: ExecutionTiming): void {
    const { trace } = this.request;
    if (trace === undefined || this.#isComposed) return;
    const { startMs, computeStartMs, computeEndMs, endMs } = timing;
    trace.mark("COMPUTE_START", startMs);
    trace.mark("COMPUTE_INPUT_END", computeStartMs);
    trace.mark("COMPUTE_OUTPUT_START", computeEndMs);
    trace.mark("COMPUTE_END", endMs);
  }

  /** Called once: the request has ended, and its execution too if there was one. */
  #endTrace(): void {
    const { trace } = this.request;
    if (trace === undefined || this.#isTraceOver) return;
    this.#isTraceOver = true;
    trace.mark("REQUEST_END", this.#clock.nowMs());
    trace.end();
  }

  #account(): void {
    const totalMs = this.#endMs - this.request.arrivalMs;
    const queueMs = this.#dequeuedMs - this.queuedMs;
    if (this.#failure !== undefined) {
      if (this.#endMs >= 0) this.#context.statistics.failed(this.#failure.reason, totalMs);
      this.#endMs = -1; // an execution that reports later must not count it again
      return;
    }
    const timing = untilEnd(this.#timing as ExecutionTiming, this.#endMs);
    this.#context.statistics.succeeded(this.batchSize, totalMs, queueMs, timing);
    this.#onTiming?.(timing, queueMs);
  }

  #outputsFor(outputs: readonly Tensor[]): readonly Tensor[] {
    const { signature, reshapesOutputs } = this.#context;
    let wanted: readonly Tensor[] = outputs;
    if (this.#areWanted(outputs)) {
      this.#lastOutputs = outputs;
    } else {
      const names = new Set(this.outputNames);
      wanted = outputs.filter((output) => names.has(output.name));
    }
    return reshapesOutputs ? wanted.map((output) => clientShape(output, signature)) : wanted;
  }

  /** Tensors that were in the response before, as most are in a stream, need no look at their names. */
  #areWanted(outputs: readonly Tensor[]): boolean {
    const isAll = this.request.outputs.length === 0;
    const { signature } = this.#context;
    const before = this.#lastOutputs;
    for (let i = 0; i < outputs.length; i++) {
      const output = outputs[i] as Tensor;
      if (output === before[i]) continue;
      if (!(isAll ? signature.outputs.has(output.name) : this.outputNames.includes(output.name))) return false;
    }
    return true;
  }
}

/** Compute time on an instance that answers after its execution: all the time until its end. */
function untilEnd(timing: ExecutionTiming, endMs: number): ExecutionTiming {
  return timing.goesOn === true && endMs > timing.endMs ? { ...timing, computeEndMs: endMs, endMs } : timing;
}

/** In the order of the configuration, which is the order of outputs. */
function wantedOutputs(requested: readonly string[], signature: ModelSignature): readonly string[] {
  if (requested.length === 0) return signature.outputNames;
  return requested.length === 1 ? requested : signature.outputNames.filter((name) => requested.includes(name));
}
