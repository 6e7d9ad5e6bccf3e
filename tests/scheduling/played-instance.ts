/**
 * A model instance that does with each request what is its fate: Y = X + 3 * Z + 1, and 7 more with each further response.
 * GENERATION says which load of the model answered. Shows the watch what it was given, when it was given it.
 */
import type { BackendRequest, Batch, ModelInstance } from "../../server/src/backend/backend.ts";
import { ServerError } from "../../server/src/core/server-error.ts";
import type { Tensor } from "../../server/src/core/tensor.ts";
import { int32, int32Values } from "../fakes/requests.ts";
import { type Fate, type FateRules, fateOf } from "./fate.ts";
import { isDecoupled, type ModelSpec } from "./model-spec.ts";
import type { VirtualClock } from "./virtual-clock.ts";

export interface PlayedParts {
  readonly name: string;
  readonly model: number;
  readonly generation: number;
  readonly spec: ModelSpec;
  readonly fates: FateRules;
  readonly clock: VirtualClock;
  readonly onStarted: (instance: PlayedInstance, batch: Batch) => void;
  /** How often each request of an iterative sequence ran, by the id of the request. */
  readonly rounds: Map<string, number>;
}

export function answerOf(x: readonly number[], z: number, response: number): number[] {
  return x.map((value) => value + 3 * z + 1 + 7 * response);
}

export function isNullRequest({ request }: BackendRequest): boolean {
  return request.id === "";
}

export class PlayedInstance implements ModelInstance {
  readonly name: string;
  readonly answersLater: boolean;
  isBusy = false;
  readonly #parts: PlayedParts;

  constructor(parts: PlayedParts) {
    this.#parts = parts;
    this.name = parts.name;
    this.answersLater = parts.spec.answersLater;
  }

  execute(batch: Batch): Promise<void> | undefined {
    this.#parts.onStarted(this, batch);
    this.isBusy = true;
    const fates = batch.requests.map((request) => this.#fateOf(request));
    const runMs = Math.max(...fates.map((fate) => fate.runMs));
    if (runMs === 0) {
      this.#end(batch, fates);
      return undefined;
    }
    return new Promise((resolve, reject) => {
      this.#parts.clock.after(runMs, () => {
        try {
          this.#end(batch, fates);
          resolve();
        } catch (error) {
          reject(error);
        }
      });
    });
  }

  isReady(): boolean {
    return true;
  }

  async close(): Promise<void> {
    await Promise.resolve();
  }

  #fateOf(one: BackendRequest): Fate {
    const { fates, model } = this.#parts;
    if (isNullRequest(one)) return { runMs: 0, end: "answer", numResponses: 1, afterMs: 0, numAgain: 0 };
    return fateOf(fates, model, Number(one.request.id), valuesOf(one, "X")[0] ?? 0);
  }

  #end(batch: Batch, fates: readonly Fate[]): void {
    this.isBusy = false;
    for (const [i, request] of batch.requests.entries()) {
      const fate = fates[i];
      if (fate?.end === "throw") throw new Error("broken on purpose");
      if (fate !== undefined) this.#endOne(request, fate);
    }
  }

  #endOne(request: BackendRequest, fate: Fate): void {
    const { spec, clock, rounds } = this.#parts;
    const isLate = (isDecoupled(spec) || this.answersLater) && !isNullRequest(request);
    if (fate.end === "error") {
      const error = new ServerError("internal", "answered with an error on purpose", { reason: "BACKEND" });
      request.respond({ outputs: [], error, final: true });
      return;
    }
    if (fate.end === "fail" || (fate.end === "forget" && isLate)) {
      request.fail(new ServerError("internal", "failed on purpose", { reason: "BACKEND" }));
      return;
    }
    if (fate.end === "forget") return;
    const round = rounds.get(request.request.id) ?? 0;
    if (request.reschedule !== undefined && round < fate.numAgain) {
      rounds.set(request.request.id, round + 1);
      request.reschedule();
      return;
    }
    if (!isDecoupled(spec)) this.#later(isLate ? fate.afterMs : 0, () => request.respond(this.#response(request, 0)));
    else this.#stream(request, fate, clock);
  }

  /** Responses one after the other, then the end, which carries the last of every other request. */
  #stream(request: BackendRequest, { numResponses, afterMs }: Fate, clock: VirtualClock): void {
    const isLastFinal = afterMs > 0 && numResponses > 0;
    const count = isLastFinal ? numResponses : numResponses + 1;
    const send = (k: number): void => {
      if (k < numResponses) request.respond({ ...this.#response(request, k), final: isLastFinal && k + 1 === count });
      else request.respond({ outputs: [], final: true });
      if (k + 1 < count) this.#later(afterMs / count, () => send(k + 1));
    };
    if (afterMs > 0) clock.after(afterMs / count, () => send(0));
    else send(0);
  }

  #later(delayMs: number, action: () => void): void {
    if (delayMs > 0) this.#parts.clock.after(delayMs, action);
    else action();
  }

  #response(one: BackendRequest, response: number): { outputs: Tensor[]; final: boolean } {
    const x = one.request.inputs.find(({ name }) => name === "X");
    const y = answerOf(valuesOf(one, "X"), valuesOf(one, "Z")[0] ?? 0, response);
    const isBatching = this.#parts.spec.config.max_batch_size > 0;
    const generations = new Array<number>(one.batchSize).fill(this.#parts.generation);
    const outputs = [
      int32("Y", x?.shape ?? [], y),
      int32("GENERATION", isBatching ? [one.batchSize, 1] : [1], generations),
    ];
    const state = one.request.inputs.find(({ name }) => name === "STATE_IN");
    if (state !== undefined)
      outputs.push(int32("STATE_OUT", state.shape, [(int32Values(state)[0] ?? 0) + (y[0] ?? 0)]));
    return { outputs, final: true };
  }
}

export function valuesOf({ request }: BackendRequest, input: string): number[] {
  return int32Values(request.inputs.find(({ name }) => name === input));
}
