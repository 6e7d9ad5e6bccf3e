/**
 * Executes one ensemble request. A *context* holds the tensors of one iteration; each response of a decoupled step
 * opens a child context. A step runs in the contexts of its origin when its inputs are present or known to be missing.
 * Responses leave in the order in which their contexts were opened.
 */
import { type InferRequest, originOf, type ParameterValue } from "../../core/infer-request.ts";
import type { InferResponse } from "../../core/infer-response.ts";
import type { ModelSignature } from "../../core/model-signature.ts";
import { forEachResponse } from "../../core/response-stream.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Clock } from "../clock.ts";
import { DerivedCancellation } from "../derived-cancellation.ts";
import type { ExecutionTiming } from "../execution-timing.ts";
import type { ScheduledRequest } from "../scheduled-request.ts";
import { StepGate } from "../step-gate.ts";
import { type DirectModel, EnsembleLane } from "./ensemble-lane.ts";
import { type EnsemblePlan, type EnsembleStep, nextSteps } from "./ensemble-plan.ts";
import type { EnsembleRoute } from "./ensemble-route.ts";
import { fitBatch, fitOutput } from "./fit-batch.ts";

const MS_PER_S = 1000;

/** A composing model as the ensemble calls it. */
export interface ComposingModel extends DirectModel {
  /** @throws ServerError when refused */
  submit(request: InferRequest, onTiming: (timing: ExecutionTiming) => void): AsyncIterable<InferResponse>;
}

export interface EnsembleRunOptions {
  readonly request: ScheduledRequest;
  readonly plan: EnsemblePlan;
  readonly signature: ModelSignature;
  readonly route: EnsembleRoute;
  readonly model: (step: EnsembleStep) => ComposingModel;
  readonly clock: Clock;
  /** Maximum wait of a step's request for earlier ones of the same step. */
  readonly maxWaitMs: number;
  /** Called once, when every started step has ended. */
  readonly onDone: (computeMs: { readonly input: number; readonly infer: number; readonly output: number }) => void;
}

interface Context {
  readonly parent: Context | undefined;
  /** The decoupled step whose response opened it. */
  readonly origin: number | undefined;
  readonly isLast: boolean;
  /** Undefined value: the tensor will never arrive. */
  readonly tensors: Map<string, Tensor | undefined>;
  readonly launched: Set<number>;
  readonly ended: Set<number>;
  readonly children: Context[];
  /** Steps of this context that have not ended. */
  running: number;
}

export class EnsembleRun {
  readonly #options: EnsembleRunOptions;
  readonly #cancellation: DerivedCancellation;
  readonly #leaves: Context[] = [];
  readonly #compute = { input: 0, infer: 0, output: 0 };
  readonly #gate: StepGate;
  readonly #parameters: ReadonlyMap<string, ParameterValue>;
  /** Steps that were submitted to a model that batches. */
  readonly #batching = new Set<number>();
  #running = 0;
  #isFailed = false;

  constructor(options: EnsembleRunOptions) {
    this.#options = options;
    const { plan, maxWaitMs, clock } = options;
    this.#gate = new StepGate({
      clock,
      limit: plan.maxInFlight,
      maxWaitMs,
      onTimeout: (step) => this.#waitedTooLong(step),
    });
    this.#cancellation = new DerivedCancellation(options.request.request);
    this.#parameters = sequenceParameters(options.request.request);
  }

  start(): void {
    const root = createContext(undefined, undefined, true);
    for (const name of this.#options.signature.inputs.keys()) root.tensors.set(name, undefined);
    for (const input of this.#options.request.request.inputs) root.tensors.set(input.name, input);
    this.#leaves.push(root);
    this.#running = 1; // prevents the end until the first steps are launched
    this.#advance(root);
    this.#stepEnded();
  }

  /** Launches the steps that are ready in a context and its descendants. */
  #advance(context: Context): void {
    for (const step of this.#options.plan.steps) {
      if (this.#isFailed) return;
      const isDue = step.origin === context.origin && this.#options.route.needed.has(step.index);
      if (!isDue || context.launched.has(step.index) || !hasAll(context, step)) continue;
      context.launched.add(step.index);
      this.#launch(context, step);
    }
    for (const child of context.children) this.#advance(child);
  }

  #launch(context: Context, step: EnsembleStep): void {
    context.running += 1;
    this.#running += 1;
    this.#gate.enter(step.index, () => this.#submit(context, step));
  }

  #submit(context: Context, step: EnsembleStep): void {
    if (this.#isFailed) {
      this.#leave(context, step);
      return;
    }
    let responses: AsyncIterable<InferResponse>;
    const model = this.#options.model(step);
    try {
      if (model.signature.maxBatchSize > 0) this.#batching.add(step.index);
      const request = this.#composingRequest(context, step, model.signature);
      responses = model.submit(request, (timing) => this.#addTiming(timing));
    } catch (thrown) {
      this.#fail(thrown);
      this.#leave(context, step);
      return;
    }
    void this.#consume(context, step, responses);
  }

  async #consume(context: Context, step: EnsembleStep, responses: AsyncIterable<InferResponse>): Promise<void> {
    const lane = this.#laneOf(context, step);
    try {
      await forEachResponse(responses, (response) => {
        if (this.#isFailed) throw new ServerError("cancelled", "the ensemble has failed");
        if (response.error !== undefined) throw response.error;
        if (response.empty && step.isDecoupled) return undefined;
        if (!this.#takeShort(context, lane, response)) this.#take(context, step, response);
        return this.#room(step);
      });
    } catch (thrown) {
      this.#fail(thrown);
    }
    this.#leave(context, step);
  }

  /** Undefined: the step is no stream, or each of its responses is looked at. */
  #laneOf(context: Context, step: EnsembleStep): EnsembleLane | undefined {
    const { plan, request, model, route } = this.#options;
    if (!step.isDecoupled || plan.maxInFlight > 0 || request.request.trace !== undefined) return undefined;
    return new EnsembleLane(step, {
      plan,
      route,
      request: request.request,
      outputNames: request.outputNames,
      model,
      outer: (tensor) => lookUp(context, tensor),
      fitOutput: (tensor, name) => this.#fitOutput(tensor, name),
      onTiming: (timing) => this.#addTiming(timing),
    });
  }

  /** False: the response has to go the long way, as when an earlier one is still on it. */
  #takeShort(context: Context, lane: EnsembleLane | undefined, response: InferResponse): boolean {
    if (lane === undefined || response.final || response.release !== undefined) return false;
    if (this.#running > 1 || this.#leaves.length > 1 || this.#leaves[0] !== context) return false;
    const outputs = lane.run(response);
    if (outputs === undefined) return false;
    this.#options.request.respond({ outputs, parameters: this.#parameters, final: false });
    return true;
  }

  /** Undefined: the next response of the step may come. */
  #room(step: EnsembleStep): Promise<unknown> | undefined {
    const { request, plan } = this.#options;
    const room = plan.maxInFlight === 0 ? undefined : this.#gate.room(nextSteps(plan, step));
    const drained = request.drained();
    return room === undefined ? drained : Promise.all([drained, room]);
  }

  #leave(context: Context, step: EnsembleStep): void {
    context.running -= 1;
    context.ended.add(step.index);
    this.#gate.leave(step.index);
    this.#stepEnded();
  }

  #waitedTooLong(index: number): void {
    const name = this.#options.plan.steps[index]?.modelName ?? "";
    const seconds = this.#options.maxWaitMs / MS_PER_S;
    const text = `a request to model '${name}' waited ${seconds} s for earlier ones to end, of which max_inflight_requests lets ${this.#options.plan.maxInFlight} run`;
    this.#fail(new ServerError("unavailable", text));
  }

  #take(context: Context, step: EnsembleStep, response: InferResponse): void {
    const target = step.isDecoupled ? createContext(context, step.index, response.final && context.isLast) : context;
    const byName = new Map(response.outputs.map((output) => [output.name, output]));
    for (const [output, tensor] of step.outputs) {
      const made = byName.get(output);
      target.tensors.set(tensor, made === undefined ? undefined : { ...made, name: tensor });
    }
    if (step.isDecoupled) {
      context.children.push(target);
      this.#placeLeaf(context, target);
    }
    this.#advance(target);
    this.#flush();
  }

  /** In response order, a child precedes its parent and follows earlier children. */
  #placeLeaf(parent: Context, child: Context): void {
    this.#leaves.splice(this.#leaves.indexOf(parent), 0, child);
  }

  /** Sends the complete responses, in order. */
  #flush(): void {
    while (!this.#isFailed) {
      const leaf = this.#leaves[0];
      if (leaf === undefined || leaf.running > 0 || (this.#running > 0 && this.#awaitsOutput(leaf))) return;
      // While anything runs, more may arrive: inputs of its steps, or the end of the stream with its flag.
      if (this.#running > 0 && ((leaf.isLast && leaf.origin !== undefined) || this.#hasPending(leaf))) return;
      if (!this.#isSpent(leaf)) this.#answer(leaf);
      this.#leaves.shift();
    }
  }

  #hasPending(leaf: Context): boolean {
    return this.#options.plan.steps.some(
      ({ index, origin }) =>
        origin === leaf.origin && this.#options.route.needed.has(index) && !leaf.launched.has(index),
    );
  }

  /** An output comes from a running step outside the stream. */
  #awaitsOutput(leaf: Context): boolean {
    const { plan, request } = this.#options;
    return request.outputNames.some((name) => {
      const producer = plan.steps[plan.producers.get(name) ?? -1];
      if (producer === undefined || producer.isDecoupled || leaf.tensors.has(name)) return false;
      for (let at = leaf.parent; at !== undefined; at = at.parent) {
        if (at.origin === producer.origin) return !at.ended.has(producer.index);
      }
      return false;
    });
  }

  /** A context with a decoupled step leaves responses to its children, even when there are none. */
  #isSpent(leaf: Context): boolean {
    return [...leaf.launched].some((index) => this.#options.plan.steps[index]?.isDecoupled === true);
  }

  #answer(leaf: Context): void {
    const { request } = this.#options;
    const outputs: Tensor[] = [];
    for (const name of [...request.outputNames].reverse()) {
      // last to first, as Triton does
      const tensor = lookUp(leaf, name);
      if (tensor === undefined) {
        if (this.#isReachable(leaf, name)) continue;
        const text = "unexpected deadlock, at least one output is not set while no more ensemble steps can be made";
        this.#fail(invalidArgument(text));
        return;
      }
      outputs.push(this.#fitOutput(tensor, name));
    }
    // With no step running nothing else can come: the end of the stream travels with the last data, as Triton sends it.
    const isFinal = this.#running === 0 && this.#leaves.slice(1).every((other) => this.#isSpent(other));
    request.respond({ outputs, parameters: this.#parameters, final: isFinal });
  }

  #fitOutput(tensor: Tensor, name: string): Tensor {
    const { signature, plan } = this.#options;
    return fitOutput(tensor, signature, name, this.#batching.has(plan.producers.get(name) ?? -1));
  }

  /** The producer ran and omitted the output, which a model may do; otherwise nothing could produce it. */
  #isReachable(leaf: Context, tensor: string): boolean {
    const producer = this.#options.plan.producers.get(tensor);
    for (let at: Context | undefined = leaf; at !== undefined; at = at.parent) {
      if (producer !== undefined && (at.launched.has(producer) || at.origin === producer)) return true;
    }
    return false;
  }

  #composingRequest(context: Context, step: EnsembleStep, signature: ModelSignature): InferRequest {
    const { request } = this.#options.request;
    const inputs: Tensor[] = [];
    for (const [input, tensor] of step.inputs) {
      const found = lookUp(context, tensor);
      if (found === undefined) continue;
      const rank = signature.inputs.get(input)?.dims.length ?? found.shape.length;
      inputs.push({ ...fitBatch(found, signature.maxBatchSize > 0, rank), name: input });
    }
    const cancellation = this.#cancellation;
    return {
      modelName: step.modelName,
      modelVersion: step.modelVersion,
      id: request.id,
      inputs,
      outputs: this.#options.route.outputs.get(step.index) ?? [],
      parameters: request.parameters,
      sequence: request.sequence,
      priority: request.priority,
      timeoutUs: request.timeoutUs,
      get signal() {
        return cancellation.signal;
      },
      get isCancelled() {
        return cancellation.isCancelled;
      },
      origin: { ...originOf(request), isLast: context.isLast && request.origin.isLast },
      arrivalMs: this.#options.clock.nowMs(),
      trace: request.trace?.child(step.modelName),
    };
  }

  #addTiming(timing: ExecutionTiming): void {
    this.#compute.input += timing.computeStartMs - timing.startMs;
    this.#compute.infer += timing.computeEndMs - timing.computeStartMs;
    this.#compute.output += timing.endMs - timing.computeEndMs;
  }

  #fail(thrown: unknown): void {
    if (this.#isFailed) return;
    this.#isFailed = true;
    const error = ServerError.from(thrown);
    const text = `in ensemble '${this.#options.signature.modelName}', ${error.message}`;
    const reason = error.reason === "CANCELED" ? "CANCELED" : "OTHER";
    this.#options.request.fail(new ServerError(error.code, text, { cause: thrown, reason }));
    this.#cancellation.cancel(error);
  }

  #stepEnded(): void {
    this.#running -= 1;
    this.#flush();
    if (this.#running > 0) return;
    const { request, onDone } = this.#options;
    this.#cancellation.release();
    onDone(this.#compute);
    if (!request.ended) request.respond({ outputs: [], final: true });
  }
}

function createContext(parent: Context | undefined, origin: number | undefined, isLast: boolean): Context {
  return {
    parent,
    origin,
    isLast,
    tensors: new Map(),
    launched: new Set(),
    ended: new Set(),
    children: [],
    running: 0,
  };
}

function lookUp(context: Context, tensor: string): Tensor | undefined {
  for (let at: Context | undefined = context; at !== undefined; at = at.parent) {
    if (at.tensors.has(tensor)) return at.tensors.get(tensor);
  }
  return undefined;
}

/** True when every input of the step has arrived, or is known never to arrive. */
function hasAll(context: Context, step: EnsembleStep): boolean {
  for (const tensor of step.inputs.values()) {
    let known = false;
    for (let at: Context | undefined = context; at !== undefined && !known; at = at.parent)
      known = at.tensors.has(tensor);
    if (!known) return false;
  }
  return true;
}

/** Like Triton, returns the sequence of the request as response parameters. */
function sequenceParameters(request: InferRequest): ReadonlyMap<string, ParameterValue> {
  const { id, start, end } = request.sequence;
  const number = typeof id === "bigint" && id <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(id) : id;
  return new Map<string, ParameterValue>([
    ["sequence_id", number],
    ["sequence_start", start],
    ["sequence_end", end],
  ]);
}
