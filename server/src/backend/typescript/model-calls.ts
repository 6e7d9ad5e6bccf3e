/** Calls from a model to other models of the server: message in, messages out. Knows no thread. */
import type { InferRequest } from "../../core/infer-request.ts";
import type { InferResponse } from "../../core/infer-response.ts";
import type { ModelSignature } from "../../core/model-signature.ts";
import type { RequestTrace } from "../../core/request-trace.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { ModelCaller } from "../backend.ts";
import type { CallMessage, CallPlan, ToThread } from "./messages.ts";
import { packError } from "./model-error.ts";
import { TensorPacker, unpackTensor } from "./pack-tensors.ts";

/** Most responses of one call in flight to a model that does not read them. */
const WINDOW = 64;

export type SendToThread = (message: ToThread, transfer?: readonly ArrayBuffer[]) => boolean;

interface RunningCall {
  readonly controller: AbortController;
  untaken: number;
  onTaken: (() => void) | undefined;
}

export class ModelCalls {
  readonly #models: ModelCaller;
  readonly #running = new Map<number, RunningCall>();

  constructor(models: ModelCaller) {
    this.#models = models;
  }

  /** Runs a call to its end; every call gets a final answer. `trace`: the one that it is a part of. Never rejects. */
  async run(call: CallMessage, send: SendToThread, trace?: RequestTrace): Promise<void> {
    const running: RunningCall = { controller: new AbortController(), untaken: 0, onTaken: undefined };
    this.#running.set(call.callId, running);
    try {
      const request = requestOf(call, running.controller.signal, trace?.child(call.modelName));
      if (call.isStream) await this.#forward(request, call.callId, running, send);
      else answer(call.callId, await this.#single(request), true, send);
    } catch (thrown) {
      const error = { ...packError(ServerError.from(thrown)), stack: "" };
      const message = { callId: call.callId, final: true, isEmpty: false, error, outputs: [] };
      send({ type: "answer", ...message, buffer: new ArrayBuffer(0) });
    } finally {
      this.#running.delete(call.callId);
    }
  }

  cancel(callId: number): void {
    const running = this.#running.get(callId);
    running?.controller.abort();
    running?.onTaken?.();
  }

  /** The model has taken `count` answers of a stream. */
  taken(callId: number, count: number): void {
    const running = this.#running.get(callId);
    if (running === undefined) return;
    running.untaken -= count;
    if (running.untaken < WINDOW) running.onTaken?.();
  }

  /** The thread that called has ended. */
  cancelAll(): void {
    for (const callId of this.#running.keys()) this.cancel(callId);
  }

  /** Expected inputs of a call. @throws ServerError when the model is not served */
  plan(modelName: string): CallPlan {
    return planOf(this.#models.signature(modelName));
  }

  async #single(request: InferRequest): Promise<InferResponse> {
    for await (const response of this.#models.infer(request)) {
      if (response.error !== undefined) throw response.error;
      if (response.final && !response.empty) return response;
      const text = `Model ${request.modelName} is decoupled and may give any number of answers: call it by models[${JSON.stringify(request.modelName)}].stream(...)`;
      throw invalidArgument(text);
    }
    throw new ServerError("internal", `Model ${request.modelName} ended a call without an answer`);
  }

  async #forward(request: InferRequest, callId: number, running: RunningCall, send: SendToThread): Promise<void> {
    for await (const response of this.#models.infer(request)) {
      if (response.error !== undefined) throw response.error;
      running.untaken += 1;
      if (!answer(callId, response, response.final, send) || response.final) return;
      while (running.untaken >= WINDOW && !running.controller.signal.aborted) await untilTaken(running);
    }
    send({ type: "answer", callId, final: true, isEmpty: true, outputs: [], buffer: new ArrayBuffer(0) });
  }
}

function untilTaken(running: RunningCall): Promise<void> {
  return new Promise((resolve) => {
    running.onTaken = resolve;
  });
}

function answer(callId: number, { outputs, empty }: InferResponse, final: boolean, send: SendToThread): boolean {
  const packer = new TensorPacker();
  const packed = packer.addAll(outputs);
  const buffer = packer.finish();
  return send({ type: "answer", callId, final, isEmpty: empty, outputs: packed, buffer }, [buffer]);
}

function planOf({ maxBatchSize, inputs }: ModelSignature): CallPlan {
  const plans = [...inputs.values()].map(({ name, datatype, dims }) => ({ name, datatype, dims }));
  return { maxBatchSize, inputs: plans };
}

function requestOf(call: CallMessage, signal: AbortSignal, trace: RequestTrace | undefined): InferRequest {
  const { modelName, version, id, outputs, parameters, sequence, priority, timeoutUs } = call;
  return {
    ...{ modelName, modelVersion: version, id, outputs, parameters, sequence, priority, timeoutUs, signal, trace },
    inputs: call.inputs.map((input) => unpackTensor(input, call.buffer)),
    origin: { key: {}, isLast: true },
    arrivalMs: performance.now(),
  };
}
