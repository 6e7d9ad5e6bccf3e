/**
 * Runs a model's code on batches: every request gets one end, for any behaviour of the code. Knows no thread and no
 * file.
 */
import type { PackedRequest, TensorPlan, ToThread } from "../messages.ts";
import type * as Api from "../model-api.ts";
import type { CallingModels } from "./calling-models.ts";
import { ModelRequest } from "./model-request.ts";
import { tensorOf } from "./model-tensors.ts";
import type { Outbox } from "./outbox.ts";
import { SequenceStates } from "./sequence-states.ts";

type Outputs = Readonly<Record<string, unknown>>;

/** A model as loaded: what it gives back is looked at, not trusted. */
export interface LoadedModel {
  initialize?(context: Api.Context): unknown;
  execute?(request: ModelRequest, context: Api.Context): unknown;
  executeBatch?(requests: readonly ModelRequest[], context: Api.Context): unknown;
  finalize?(context: Api.Context): unknown;
}

export interface RunnerParts {
  readonly model: LoadedModel;
  readonly context: Api.Context;
  readonly calling: CallingModels;
  readonly outbox: Outbox;
  readonly decoupled: boolean;
  readonly maxBatchSize: number;
  readonly sequenceIdleMs: number;
  readonly outputs: readonly TensorPlan[];
}

type ExecuteMessage = Extract<ToThread, { readonly type: "execute" }>;

export class BatchRunner {
  readonly #parts: RunnerParts;
  readonly #plans: ReadonlyMap<string, TensorPlan>;
  readonly #requests = new Map<number, ModelRequest>();
  readonly #states: SequenceStates;

  constructor(parts: RunnerParts) {
    this.#parts = parts;
    this.#plans = new Map(parts.outputs.map((plan) => [plan.name, plan]));
    this.#states = new SequenceStates(parts.sequenceIdleMs);
  }

  cancel(key: number): void {
    this.#requests.get(key)?.cancel();
  }

  credit(key: number, count: number): void {
    this.#requests.get(key)?.credit(count);
  }

  async run({ batchId, requests, buffer }: ExecuteMessage): Promise<void> {
    const { model, decoupled, outbox, sequenceIdleMs } = this.#parts;
    const entered = requests.flatMap((packed) => this.#enter(packed, buffer) ?? []);
    const running =
      model.executeBatch === undefined
        ? Promise.all(entered.map((request) => this.#runOne(request)))
        : this.#runBatch(entered);
    // Requests of a decoupled model run side by side, but for those of sequences: each builds on the one before.
    if (!decoupled || sequenceIdleMs > 0) await running;
    outbox.executed(batchId);
  }

  /** Undefined when it has failed already. */
  #enter(packed: PackedRequest, buffer: ArrayBuffer): ModelRequest | undefined {
    const { calling, outbox } = this.#parts;
    const request = new ModelRequest({
      ...{ packed, buffer, calling, states: this.#states },
      respond: (sender, outputs) => this.#send(sender, outputs),
    });
    try {
      if (this.#parts.sequenceIdleMs > 0) request.enterSequence(performance.now());
    } catch (error) {
      outbox.fail(packed.key, error);
      return undefined;
    }
    this.#requests.set(packed.key, request);
    return request;
  }

  async #runOne(request: ModelRequest): Promise<void> {
    const { model, context, outbox } = this.#parts;
    try {
      const result = model.execute?.(request, context);
      if (isAsyncIterable(result)) await this.#forward(request, result);
      else this.#finish(request, await result);
    } catch (error) {
      outbox.fail(request.key, error);
    }
    this.#leave(request);
  }

  async #runBatch(requests: readonly ModelRequest[]): Promise<void> {
    const { model, context, outbox } = this.#parts;
    try {
      const answers = await model.executeBatch?.(requests, context);
      if (!Array.isArray(answers) || answers.length !== requests.length) {
        const got = Array.isArray(answers) ? `${answers.length}` : typeof answers;
        throw new TypeError(
          `executeBatch must give an array of one answer for each of ${requests.length} requests, got ${got}`,
        );
      }
      for (const [index, request] of requests.entries()) this.#finishSafely(request, answers[index]);
    } catch (error) {
      for (const { key } of requests) outbox.fail(key, error);
    }
    for (const request of requests) this.#leave(request);
  }

  #finishSafely(request: ModelRequest, answer: unknown): void {
    try {
      if (answer instanceof Error) throw answer;
      this.#finish(request, answer);
    } catch (error) {
      this.#parts.outbox.fail(request.key, error);
    }
  }

  #finish(request: ModelRequest, answer: unknown): void {
    const { decoupled, outbox } = this.#parts;
    if (decoupled && answer === undefined) outbox.end(request.key);
    else outbox.answer(request.key, this.#tensors(request, answer), true);
  }

  async #forward(request: ModelRequest, answers: AsyncIterable<unknown>): Promise<void> {
    if (!this.#parts.decoupled) {
      throw new TypeError(
        "execute gives many answers, and the model is not decoupled: add model_transaction_policy { decoupled: true } to config.pbtxt",
      );
    }
    for await (const answer of answers) {
      await request.send(answer as Outputs);
      if (request.isGone) break;
    }
    this.#parts.outbox.end(request.key);
  }

  #send(request: ModelRequest, outputs: Outputs): void {
    if (!this.#parts.decoupled) throw new TypeError("send is for decoupled models; return the outputs instead");
    if (this.#requests.get(request.key) !== request)
      throw new TypeError("send was called after the end of its request");
    this.#parts.outbox.answer(request.key, this.#tensors(request, outputs), false);
  }

  #tensors({ outputNames, batchSize }: ModelRequest, answer: unknown) {
    if (typeof answer !== "object" || answer === null) {
      throw new TypeError(`execute must give its outputs by name, got ${answer === null ? "null" : typeof answer}`);
    }
    const wanted = new Set(outputNames);
    const missing = outputNames.find((name) => !Object.hasOwn(answer, name));
    if (missing !== undefined) throw this.#missing(missing, answer);
    const rows = this.#parts.maxBatchSize > 0 ? batchSize : undefined;
    return Object.entries(answer)
      .filter(([name, value]) => value !== undefined && (wanted.has(name) || this.#plans.has(name)))
      .map(([name, value]) => tensorOf("output", name, value, this.#plans.get(name), rows));
  }

  #missing(name: string, answer: object): TypeError {
    const unknown = Object.keys(answer).filter((given) => !this.#plans.has(given));
    const slip =
      unknown.length === 0 ? "" : `; what it gave as '${unknown.join("', '")}' is no output of the configuration`;
    return new TypeError(`execute must give the output '${name}' and did not${slip}`);
  }

  #leave(request: ModelRequest): void {
    request.leaveSequence();
    this.#requests.delete(request.key);
  }
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}
