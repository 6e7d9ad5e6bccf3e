/** Calls from a Python model to other models of the server: message in, messages out. Knows no process. */
import type { InferRequest } from "../../core/infer-request.ts";
import type { InferResponse } from "../../core/infer-response.ts";
import type { RequestTrace } from "../../core/request-trace.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { ModelCaller } from "../backend.ts";
import { type CallMessage, encodeCallResponse, type Frame, type StubResponse } from "./messages.ts";
import type { DataPlacer } from "./wire-codec.ts";

/** The way back to the process that calls. */
export interface CallSink {
  send(frame: Frame): boolean;
  drained(): Promise<void>;
  /** Takes big data over. */
  readonly blocks?: DataPlacer;
}

export class ModelCalls {
  readonly #models: ModelCaller;
  readonly #running = new Map<number, AbortController>();

  constructor(models: ModelCaller) {
    this.#models = models;
  }

  /** Runs a call to its end; every call gets a final answer. `trace`: the one that it is a part of. Never rejects. */
  async run(call: CallMessage, sink: CallSink, trace?: RequestTrace): Promise<void> {
    const controller = new AbortController();
    this.#running.set(call.callId, controller);
    try {
      const request = requestOf(call, controller.signal, trace?.child(call.modelName));
      if (call.decoupled) await this.#forward(request, call.callId, sink);
      else sink.send(encodeCallResponse(call.callId, true, await this.#single(request), sink.blocks));
    } catch (thrown) {
      const response: StubResponse = { error: callError(thrown, call.modelName), outputs: [], parameters: new Map() };
      sink.send(encodeCallResponse(call.callId, true, response));
    } finally {
      this.#running.delete(call.callId);
    }
  }

  cancel(callId: number): void {
    this.#running.get(callId)?.abort();
  }

  /** The process that called has ended. */
  cancelAll(): void {
    for (const controller of this.#running.values()) controller.abort();
  }

  async #single(request: InferRequest): Promise<StubResponse> {
    for await (const response of this.#models.infer(request)) {
      if (response.final && !response.empty) return stubResponse(response);
      throw invalidArgument(
        `Model ${request.modelName} is using the decoupled. The current BLS request call doesn't support models using the decoupled transaction policy. Please use 'decoupled=True' argument to the 'exec' or 'async_exec' calls for decoupled models.'`,
      );
    }
    throw new ServerError("internal", "Unexpected empty response.");
  }

  async #forward(request: InferRequest, callId: number, sink: CallSink): Promise<void> {
    for await (const response of this.#models.infer(request)) {
      const answer = response.empty ? undefined : stubResponse(response);
      if (!sink.send(encodeCallResponse(callId, response.final, answer, sink.blocks))) await sink.drained();
      if (response.final) return;
    }
    sink.send(encodeCallResponse(callId, true, undefined));
  }
}

/** In Triton's words: a request that never reached its model is told apart from a failure of the model. */
function callError(thrown: unknown, model: string): ServerError {
  const error = ServerError.from(thrown);
  if (error.reason === "BACKEND" || error.code === "cancelled") return error;
  const isAbsent = error.message.startsWith("Request for unknown model:");
  const text = isAbsent ? `Failed for execute the inference request. Model '${model}' is not ready.` : error.message;
  return new ServerError(error.code, `Model ${model} - Error when running inference: ${text}`, { cause: error });
}

function requestOf(call: CallMessage, signal: AbortSignal, trace: RequestTrace | undefined): InferRequest {
  return {
    modelName: call.modelName,
    modelVersion: call.modelVersion < 0 ? "" : String(call.modelVersion),
    id: call.id,
    inputs: call.inputs,
    outputs: call.outputs,
    parameters: call.parameters,
    sequence: call.sequence,
    priority: 0,
    timeoutUs: call.timeoutUs,
    signal,
    origin: { key: {}, isLast: true },
    arrivalMs: performance.now(),
    trace,
  };
}

function stubResponse({ error, outputs, parameters }: InferResponse): StubResponse {
  return error === undefined ? { outputs, parameters } : { error, outputs, parameters };
}
