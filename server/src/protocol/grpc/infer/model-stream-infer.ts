/**
 * ModelStreamInfer, the streaming inference RPC for any number of requests and models (Triton's gRPC extension).
 * Responses of ordinary models keep the order of their requests, those of decoupled models are sent as they come. An
 * error is a message and does not end the stream, unless the client asks for that.
 */
import type { InferRequestMessage } from "@nereid/wire";
import { AccessRefusal } from "../../../access/access-refusal.ts";
import { Cancellation } from "../../../core/cancellation.ts";
import type { ServedModel } from "../../../core/model-server.ts";
import type { RequestTrace } from "../../../core/request-trace.ts";
import { forEachResponse } from "../../../core/response-stream.ts";
import { isFailureOnceTaken, ServerError } from "../../../core/server-error.ts";
import type { CallAccess } from "../../call-access.ts";
import { LoopTurn } from "../../loop-turn.ts";
import { meteredModel } from "../../metered-infer.ts";
import { RequestMemory } from "../../request-memory.ts";
import { logStreamRequest } from "../call-log.ts";
import { admitted, shownError } from "../key-check.ts";
import type { OutgoingMessage, StreamCall, StreamHandler, StreamMethod } from "../routes/method.ts";
import { DRAINING } from "../status.ts";
import { endTrace, startGrpcTrace } from "../trace-calls.ts";
import { type PreparedInfer, prepareInfer } from "./infer-codec.ts";
import { type InferParts, logInferFailure } from "./model-infer.ts";
import { OrderedReplies } from "./ordered-replies.ts";

/** Set to true by clients that want the first error as the status of the call. */
const STRICT_ERRORS = "triton_grpc_error";

/** Sends a reply; a promise when the client is behind. */
type Send = (reply: OutgoingMessage) => Promise<void> | undefined;

export function modelStreamInferMethod(parts: InferParts): StreamMethod {
  const turn = new LoopTurn();
  return { kind: "stream", group: "inference", isInference: true, open: (call) => new InferStream(parts, call, turn) };
}

/** A request of the stream on its way. */
interface RunningInfer {
  readonly message: InferRequestMessage;
  readonly model: ServedModel | ServerError;
  readonly cancellation: Cancellation;
  readonly trace: RequestTrace | undefined;
}

/** How far a request came. */
interface TakenInfer {
  infer: PreparedInfer | undefined;
  startTurn: number;
  isAnswered: boolean;
}

class InferStream implements StreamHandler {
  readonly #parts: InferParts;
  readonly #call: StreamCall;
  readonly #isStrict: boolean;
  readonly #turn: LoopTurn;
  readonly #replies: OrderedReplies;
  /** One per request in flight: a shared signal would collect thousands of listeners. */
  readonly #running = new Set<Cancellation>();
  #isInputOver = false;
  #isDraining = false;
  #numRequests = 0;

  constructor(parts: InferParts, call: StreamCall, turn: LoopTurn) {
    this.#parts = parts;
    this.#turn = turn;
    this.#call = call;
    this.#isStrict = call.metadata[STRICT_ERRORS] === "true";
    this.#replies = new OrderedReplies((message) => void call.send(message));
    call.cancellation.signal.addEventListener("abort", () => {
      for (const cancellation of this.#running) cancellation.cancel();
    });
  }

  message(bytes: Uint8Array): Promise<void> {
    const readMs = this.#parts.server.tracing.isOn ? performance.now() : 0;
    const { codec, log } = this.#parts;
    logStreamRequest(log, this.#call.id, ++this.#numRequests);
    const message = codec.decode(bytes);
    const cancellation = new Cancellation();
    this.#running.add(cancellation);
    return this.#run(message, cancellation, readMs);
  }

  halfClose(): void {
    this.#isInputOver = true;
    this.#finishIfDone();
  }

  /** From now on new requests are refused; those under way are answered. */
  drain(): void {
    this.#isDraining = true;
  }

  #finishIfDone(): void {
    if (this.#isInputOver && this.#running.size === 0) this.#call.finish();
  }

  async #run(message: InferRequestMessage, cancellation: Cancellation, readMs: number): Promise<void> {
    const model = this.#tryModel(message);
    const trace = model instanceof ServerError ? undefined : this.#startTrace(model, readMs);
    const running: RunningInfer = { message, model, cancellation, trace };
    if (model instanceof ServerError || !model.decoupled) {
      const slot = this.#replies.open();
      await this.#serve(running, (reply) => void slot.add(reply));
      slot.close();
    } else {
      await this.#serve(running, (reply) => this.#call.send(reply));
    }
    if (trace !== undefined) endTrace(trace);
    this.#running.delete(cancellation);
    this.#finishIfDone();
  }

  #startTrace(model: ServedModel, readMs: number): RequestTrace | undefined {
    const { tracing } = this.#parts.server;
    return tracing.isOn ? startGrpcTrace(tracing, model.name, this.#call.metadata, readMs) : undefined;
  }

  #tryModel(message: InferRequestMessage): ServedModel | ServerError {
    if (this.#isDraining) return new ServerError("unavailable", DRAINING);
    try {
      return this.#parts.server.model(message.modelName, message.modelVersion);
    } catch (error) {
      return ServerError.from(error);
    }
  }

  /** Never throws: what goes wrong becomes a message or the status of the call. */
  async #serve({ message, model, cancellation, trace }: RunningInfer, send: Send): Promise<void> {
    const taken: TakenInfer = { infer: undefined, startTurn: 0, isAnswered: false };
    const { forwardPattern, regions } = this.#parts;
    const memory = new RequestMemory(regions);
    try {
      // Each request counts for itself, and a key that was taken away ends with the requests that it began.
      const access = this.#call.access?.next();
      await admitted(access, message.modelName, () => {
        if (model instanceof ServerError) throw model;
        const { metadata } = this.#call;
        taken.infer = prepareInfer(message, model, { metadata, forwardPattern, cancellation, access, memory, trace });
        taken.startTurn = this.#turn.now();
        return this.#relay(taken.infer, access, (reply) => {
          taken.isAnswered = true;
          return send(reply);
        });
      });
    } catch (thrown) {
      const error = shownError(thrown);
      logInferFailure(this.#parts.log, "stream_infer_handler", message.id, error);
      const failed = this.#isFailure(error, taken) ? taken.infer : undefined;
      if (this.#isStrict && (failed !== undefined || thrown instanceof AccessRefusal)) this.#call.fail(thrown);
      else {
        this.#call.report(thrown);
        void send(this.#errorReply(error, message, failed));
      }
    } finally {
      memory.release();
    }
  }

  /** Sends every response of a request as it comes, not faster than the client takes them. */
  async #relay(infer: PreparedInfer, access: CallAccess | undefined, send: Send): Promise<void> {
    const { codec } = this.#parts;
    const { trace } = infer.request;
    const model = meteredModel(infer.model, access, infer.request.inputs);
    await forEachResponse(model.infer(infer.request), (response) => {
      if (response.empty && !infer.wantsEmptyFinal) return undefined;
      if (response.error !== undefined && this.#isStrict) throw response.error;
      const reply =
        response.error === undefined
          ? codec.encodeOnStream(response, infer)
          : codec.encodeFailure(response.error, infer, response.final);
      trace?.mark("GRPC_SEND_START", performance.now());
      return send(reply);
    });
  }

  /** Whether the request was taken and failed later. The refusal of a request never ends a stream, strict or not; that of a key does. */
  #isFailure(error: ServerError, { isAnswered, startTurn }: TakenInfer): boolean {
    return isAnswered || isFailureOnceTaken(error) || this.#turn.hasTurned(startTurn);
  }

  /** A failure names the request and ends it; a refusal has only its id. */
  #errorReply(error: ServerError, message: InferRequestMessage, failed: PreparedInfer | undefined): OutgoingMessage {
    const { codec } = this.#parts;
    if (failed === undefined) return codec.encodeRefusal(error.message, message.id);
    return codec.encodeFailure(error, failed, true);
  }
}
