/** Lanes of a thread: each carries one request at a time, over a connection of its own or a shared one. */
import type { AnswerSink } from "./exchange.ts";
import { GrpcClient, type GrpcStream } from "./grpc-client.ts";
import { HttpClient } from "./http-client.ts";
import type { ThreadPlan } from "./load-messages.ts";

export interface Lane {
  send(request: Uint8Array, sink: AnswerSink): void;
}

export interface Lanes {
  open(): Lane;
  close(): void;
}

const INFER = "/inference.GRPCInferenceService/ModelInfer";
const STREAM_INFER = "/inference.GRPCInferenceService/ModelStreamInfer";
/** First byte of a ModelStreamInferResponse that begins with `error_message`, field 1. */
const ERROR_TAG = 0x0a;
/** The parameter that marks the last response of a request, as protobuf writes it: key, then `bool_param: true`. */
const FINAL_RESPONSE: Buffer = Buffer.concat([
  Buffer.from([0x0a, 21]),
  Buffer.from("triton_final_response"),
  Buffer.from([0x12, 0x02, 0x08, 0x01]),
]);

export function createLanes(plan: ThreadPlan): Lanes {
  return plan.transport === "http" ? new HttpLanes(plan) : new GrpcLanes(plan);
}

class HttpLanes implements Lanes {
  readonly #plan: ThreadPlan;
  readonly #clients: HttpClient[] = [];

  constructor(plan: ThreadPlan) {
    this.#plan = plan;
  }

  open(): Lane {
    const client = new HttpClient(this.#plan.address);
    this.#clients.push(client);
    return client;
  }

  close(): void {
    for (const client of this.#clients) client.close();
  }
}

class GrpcLanes implements Lanes {
  readonly #plan: ThreadPlan;
  readonly #clients: GrpcClient[] = [];
  #numLanes = 0;

  constructor(plan: ThreadPlan) {
    this.#plan = plan;
  }

  open(): Lane {
    const { callsPerConnection, transport, isDecoupled } = this.#plan;
    const at = Math.floor(this.#numLanes++ / callsPerConnection);
    const client = (): GrpcClient => this.#clientAt(at);
    if (transport === "grpc-stream") return new StreamLane(client, isDecoupled);
    return { send: (request, sink) => client().call(INFER, request, sink) };
  }

  close(): void {
    for (const client of this.#clients) client.close();
  }

  #clientAt(at: number): GrpcClient {
    const known = this.#clients[at];
    if (known !== undefined && !known.isClosed) return known;
    const client = new GrpcClient(this.#plan.address, this.#plan.metadata);
    this.#clients[at] = client;
    return client;
  }
}

/** A stream of ModelStreamInfer on which one request follows the answer to the one before. */
class StreamLane implements Lane {
  readonly #client: () => GrpcClient;
  readonly #isDecoupled: boolean;
  #stream: GrpcStream | undefined;
  #sink: AnswerSink | undefined;

  constructor(client: () => GrpcClient, isDecoupled: boolean) {
    this.#client = client;
    this.#isDecoupled = isDecoupled;
  }

  send(request: Uint8Array, sink: AnswerSink): void {
    this.#sink = sink;
    this.#stream ??= this.#client().open(STREAM_INFER, {
      part: (message) => this.#response(message),
      end: (failure) => {
        this.#stream = undefined;
        this.#finish(failure ?? "the server ended the stream");
      },
    });
    this.#stream.send(request);
  }

  #response(message: Buffer): void {
    if (message[0] === ERROR_TAG) {
      this.#finish(message.toString("utf8", 2));
      return;
    }
    this.#sink?.part?.(message);
    if (!this.#isDecoupled || message.includes(FINAL_RESPONSE)) this.#finish(undefined);
  }

  #finish(failure: string | undefined): void {
    const sink = this.#sink;
    this.#sink = undefined;
    sink?.end(failure);
  }
}
