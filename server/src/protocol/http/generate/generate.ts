/**
 * POST /v2/models/M/generate and /generate_stream: one JSON object in, one or many out (Triton's generate extension).
 */
import { JsonReader, JsonTensorReader } from "@nereid/wire";
import type { InferResponse } from "../../../core/infer-response.ts";
import type { ModelServer, ServedModel } from "../../../core/model-server.ts";
import { invalidArgument, isFailureOnceTaken, ServerError } from "../../../core/server-error.ts";
import type { Tensor } from "../../../core/tensor.ts";
import { LoopTurn } from "../../loop-turn.ts";
import { meteredModel } from "../../metered-infer.ts";
import type { HttpCall } from "../http-call.ts";
import { bytesReply, emptyReply, errorReply, type HttpReply, type HttpStreamReply } from "../http-reply.ts";
import { type DecodedInfer, HttpInferRequest } from "../infer/http-infer-request.ts";
import { type JsonInferCodec, MAX_BYTES_AT_ONCE } from "../infer/infer-codec.ts";
import { JSON_LIMITS, jsonFailure } from "../json/json-access.ts";
import { errorBody } from "../status.ts";
import { startHttpTrace } from "../trace-calls.ts";
import { runAtOnce, runInTurns } from "../transport/slices.ts";
import { EventWriter } from "./event-writer.ts";
import { Events, type Outcome, Outcomes } from "./generate-events.ts";
import { decodeGenerate, type GenerateContext } from "./generate-request.ts";
import { writeGenerateResponse } from "./generate-response.ts";

const EVENT_STREAM = "text/event-stream; charset=utf-8";
const EVENT_START: Buffer = Buffer.from("data: ");
const EVENT_END: Buffer = Buffer.from("\n\n");
/** Status of a model's own error, for every code: only a refusal has a status by code. */
const FAILED_STATUS = 400;
const NOT_ONE =
  "generate expects model to produce exactly 1 response, use generate stream for model that generates various number of responses";

export class GenerateHandler {
  readonly #server: ModelServer;
  readonly #codec: JsonInferCodec;
  readonly #maxInputBytes: number;
  readonly #turn = new LoopTurn();

  constructor(server: ModelServer, codec: JsonInferCodec, maxInputBytes: number) {
    this.#server = server;
    this.#codec = codec;
    this.#maxInputBytes = maxInputBytes;
  }

  /** Exactly one response: anything else is said in the body, under the status of the first. */
  async generate(model: string, version: string, call: HttpCall): Promise<HttpReply> {
    const request = await this.#start(model, version, call, true);
    const turn = this.#turn.now();
    const outcomes = new Outcomes(request);
    let first: Outcome | undefined;
    let count = 0;
    let isRefused = false;
    for (let outcome = await outcomes.read(); outcome !== undefined; outcome = await outcomes.read()) {
      if (first === undefined) isRefused = this.#isRefusal(outcome, turn);
      first ??= outcome;
      count++;
    }
    if (first !== undefined && "error" in first) {
      if (isRefused) throw first.error;
      return errorReply(FAILED_STATUS, "application/json", first.error.message);
    }
    if (first === undefined || count !== 1) return errorReply(200, "application/json", NOT_ONE);
    return bytesReply("application/json", [this.#body(first.response)]);
  }

  /** The first outcome sets the status; all are events. A refusal is a plain JSON error. */
  async generateStream(model: string, version: string, call: HttpCall): Promise<HttpReply | HttpStreamReply> {
    const request = await this.#start(model, version, call, false);
    const turn = this.#turn.now();
    const outcomes = new Outcomes(request);
    const first = await outcomes.read();
    if (first === undefined) return emptyReply(200, EVENT_STREAM);
    const events = new EventWriter();
    const chunks = new Events(first, outcomes, (outcome) => this.#event(outcome, events));
    if (!("error" in first)) return { status: 200, contentType: EVENT_STREAM, chunks };
    if (this.#isRefusal(first, turn)) throw first.error;
    return { status: FAILED_STATUS, contentType: EVENT_STREAM, chunks };
  }

  /** An error that came before the request was taken. */
  #isRefusal(outcome: Outcome, turn: number): boolean {
    return "error" in outcome && !this.#turn.hasTurned(turn) && !isFailureOnceTaken(outcome.error);
  }

  async #start(
    model: string,
    version: string,
    call: HttpCall,
    isOneAnswer: boolean,
  ): Promise<[Pick<ServedModel, "infer">, HttpInferRequest]> {
    const served = this.#server.model(model, version);
    const encoding = call.header("content-encoding") ?? "";
    if (encoding !== "" && encoding !== "identity") {
      throw invalidArgument("Unsupported content-encoding, only 'identity' is supported.");
    }
    startHttpTrace(this.#server.tracing, served.name, call);
    const { bytes, size } = await call.body(this.#maxInputBytes);
    call.trace?.mark("HTTP_RECV_END", performance.now());
    if (size > this.#maxInputBytes) {
      throw invalidArgument(
        `request JSON size of ${size} bytes exceeds the maximum allowed input size of ${this.#maxInputBytes} bytes. Use --http-max-input-size to increase the limit.`,
      );
    }
    const decoded = await this.#decode(bytes, served);
    const isWhole = isOneAnswer || !served.decoupled;
    const request = new HttpInferRequest(model, version, isWhole ? asOneAnswer(decoded) : decoded, call);
    return [meteredModel(served, call.access, request.inputs), request];
  }

  async #decode(bytes: Buffer, served: ServedModel): Promise<DecodedInfer> {
    const isSmall = bytes.length <= MAX_BYTES_AT_ONCE;
    const reader = isSmall ? this.#codec.json : new JsonReader(JSON_LIMITS);
    const tensors = isSmall ? this.#codec.tensors : new JsonTensorReader(reader);
    const context: GenerateContext = {
      served,
      reader,
      tensors,
      maxInputBytes: this.#maxInputBytes,
    };
    reader.reset(bytes);
    try {
      return isSmall ? runAtOnce(decodeGenerate(context)) : await runInTurns(decodeGenerate(context));
    } catch (error) {
      throw jsonFailure(error);
    }
  }

  #event(outcome: Outcome, events: EventWriter): Uint8Array {
    if ("error" in outcome)
      return Buffer.concat([Buffer.from("data: "), errorBody(outcome.error.message), Buffer.from("\n\n")]);
    const { writer } = this.#codec;
    try {
      writer.begin();
      writer.rawBytes(EVENT_START);
      events.write(writer, outcome.response);
      writer.rawBytes(EVENT_END);
      return writer.finish();
    } catch (error) {
      return this.#event({ error: ServerError.from(error) }, events);
    }
  }

  #body(response: InferResponse): Uint8Array {
    const { writer } = this.#codec;
    writer.begin();
    writeGenerateResponse(writer, response);
    return writer.finish();
  }
}

/** Inputs by which language models are asked for a response per token. */
const STREAM_FLAGS = ["stream", "streaming"];

/** A request with one answer, by its endpoint or its model, gets all sequences in that answer. */
function asOneAnswer(decoded: DecodedInfer): DecodedInfer {
  const asksForMany = ({ name, datatype }: Tensor): boolean => STREAM_FLAGS.includes(name) && datatype === "BOOL";
  if (!decoded.inputs.some(asksForMany)) return decoded;
  const inputs = decoded.inputs.map((tensor) =>
    asksForMany(tensor) ? { ...tensor, data: new Uint8Array(tensor.data.length) } : tensor,
  );
  return { ...decoded, inputs };
}
