/** Sends one drawn request by HTTP or gRPC and says what became of it. Knows the protocols, and no model. */
import { Agent, type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http";
import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";
import {
  decode,
  encode,
  frame,
  openSession,
  STREAM_INFER,
} from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import type { DrawnRequest, InputValue } from "./llm-requests.ts";
import type { Ports } from "./server-process.ts";

/** `left`: the client was gone before anything came, so that the server may never have seen the request. */
export type Ending = "answered" | "refused" | "left" | "left midway";

export interface Outcome {
  readonly ending: Ending;
  /** Parts of the answer that came. */
  readonly numParts: number;
  /** The server's message, if it refused. */
  readonly message: string;
}

/** A client with connections of its own. */
export class PipelineClient implements Disposable {
  readonly #ports: Ports;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  #session: ClientHttp2Session | undefined;

  constructor(ports: Ports) {
    this.#ports = ports;
  }

  send(drawn: DrawnRequest): Promise<Outcome> {
    return drawn.way === "grpc stream" ? this.#overGrpc(drawn) : this.#overHttp(drawn);
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
    this.#session?.destroy();
  }

  #overHttp(drawn: DrawnRequest): Promise<Outcome> {
    const { way, model, fate } = drawn;
    const body = way === "infer" ? inferBody(drawn) : generateBody(drawn);
    const path = `/v2/models/${model}/${way}`;
    return new Promise((resolve) => {
      const state = { text: "", numParts: 0 };
      const options = { host: "127.0.0.1", port: this.#ports.http, path, method: "POST", agent: this.#agent };
      const outgoing: ClientRequest = httpRequest(options, (incoming: IncomingMessage) => {
        incoming.setEncoding("utf8");
        incoming.on("data", (chunk: string) => {
          state.text += chunk;
          state.numParts = way === "generate_stream" ? state.text.split("\n\n").length - 1 : 1;
          if (fate === "leave midway" && state.numParts >= drawn.numParts) outgoing.destroy();
        });
        incoming.on("error", () => resolve(leftOutcome(state)));
        incoming.on("end", () => {
          const ending = (incoming.statusCode ?? 0) < 400 && !state.text.includes('"error"') ? "answered" : "refused";
          resolve({ ending, numParts: state.numParts, message: ending === "refused" ? state.text : "" });
        });
      });
      outgoing.on("error", () => resolve(leftOutcome(state)));
      outgoing.on("close", () => resolve(leftOutcome(state)));
      outgoing.end(body);
      if (fate === "leave") setTimeout(() => outgoing.destroy(), drawn.leaveAfterMs);
    });
  }

  async #overGrpc(drawn: DrawnRequest): Promise<Outcome> {
    if (this.#session === undefined || this.#session.destroyed) this.#session = openSession(this.#ports.grpc);
    const session = this.#session;
    const stream = openStream(session);
    const answer = collect(stream, (numParts) => {
      if (numParts !== drawn.numParts) return;
      if (drawn.fate === "leave midway") stream.close(8);
      if (drawn.fate === "stop") sendStop(session, drawn);
    });
    stream.end(frame(encode("inference.ModelInferRequest", grpcMessage(drawn))));
    if (drawn.fate === "leave") {
      await Promise.race([answer, sleep(drawn.leaveAfterMs)]);
      stream.close(8);
    }
    return answer;
  }
}

/** The engine is asked by the id of the request, as clients of TensorRT-LLM ask. */
function sendStop(session: ClientHttp2Session, { id }: DrawnRequest): void {
  const stream = openStream(session);
  stream.on("error", () => undefined);
  stream.resume();
  const inputs = { input_ids: [1], input_lengths: 0, request_output_len: 0, stop: true };
  stream.end(frame(encode("inference.ModelInferRequest", grpcMessage({ id, model: "tensorrt_llm", inputs }))));
}

function openStream(session: ClientHttp2Session): ClientHttp2Stream {
  return session.request({
    ":method": "POST",
    ":path": STREAM_INFER,
    "content-type": "application/grpc",
    te: "trailers",
  });
}

function collect(stream: ClientHttp2Stream, onPart: (numParts: number) => void): Promise<Outcome> {
  return new Promise((resolve) => {
    let buffer = Buffer.alloc(0);
    let numParts = 0;
    let message = "";
    let status: string | undefined;
    const takeStatus = (headers: { "grpc-status"?: string | string[] | undefined }): void => {
      const found = headers["grpc-status"];
      if (found !== undefined) status = String(found);
    };
    stream.on("response", takeStatus);
    stream.on("trailers", takeStatus);
    stream.on("data", (chunk: Buffer) => {
      buffer = Buffer.concat([buffer, chunk]);
      while (buffer.length >= 5 && buffer.length >= 5 + buffer.readUInt32BE(1)) {
        const length = buffer.readUInt32BE(1);
        const reply = decode("inference.ModelStreamInferResponse", buffer.subarray(5, 5 + length));
        buffer = buffer.subarray(5 + length);
        message ||= String(reply.error_message ?? "");
        numParts += 1;
        onPart(numParts);
      }
    });
    stream.on("error", () => undefined);
    stream.on("close", () => {
      if (status === undefined) resolve(leftOutcome({ numParts }));
      else resolve({ ending: status === "0" && message === "" ? "answered" : "refused", numParts, message });
    });
  });
}

function leftOutcome({ numParts }: { readonly numParts: number }): Outcome {
  return { ending: numParts > 0 ? "left midway" : "left", numParts, message: "" };
}

function generateBody({ id, inputs }: DrawnRequest): string {
  const plain = Object.entries(inputs).map(([name, value]) => [name, plainValue(value)]);
  return JSON.stringify({ ...Object.fromEntries(plain), id });
}

function plainValue(value: InputValue): unknown {
  if (typeof value === "bigint") return Number(value);
  return typeof value === "object" && "float" in value ? value.float : value;
}

function inferBody({ id, inputs }: DrawnRequest): string {
  const tensors = Object.entries(inputs).map(([name, value]) => {
    const { datatype, elements } = tensorOf(value);
    return { name, datatype, shape: [1, elements.length], data: elements };
  });
  return JSON.stringify({ id, inputs: tensors });
}

function grpcMessage({ id, model, inputs }: Pick<DrawnRequest, "id" | "model" | "inputs">): object {
  const tensors = Object.entries(inputs).map(([name, value]) => ({ name, ...tensorOf(value) }));
  return {
    id,
    model_name: model,
    inputs: tensors.map(({ name, datatype, elements }) => ({ name, datatype, shape: [1, elements.length] })),
    raw_input_contents: tensors.map(({ datatype, elements }) => rawOf(datatype, elements)),
  };
}

interface PlainTensor {
  readonly datatype: "BYTES" | "BOOL" | "INT32" | "UINT64" | "FP32";
  readonly elements: readonly (string | number | boolean | bigint)[];
}

function tensorOf(value: InputValue): PlainTensor {
  if (typeof value === "object" && "float" in value) return { datatype: "FP32", elements: [value.float] };
  const elements = typeof value === "object" ? value : [value];
  const [first] = elements;
  const datatype =
    typeof first === "string"
      ? "BYTES"
      : typeof first === "boolean"
        ? "BOOL"
        : typeof first === "bigint"
          ? "UINT64"
          : "INT32";
  return { datatype, elements };
}

function rawOf(datatype: PlainTensor["datatype"], elements: PlainTensor["elements"]): Buffer {
  return Buffer.concat(elements.map((element) => rawElement(datatype, element)));
}

function rawElement(datatype: PlainTensor["datatype"], element: PlainTensor["elements"][number]): Buffer {
  if (datatype === "BYTES") {
    const text = Buffer.from(String(element));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(text.length);
    return Buffer.concat([length, text]);
  }
  if (datatype === "BOOL") return Buffer.from([element === true ? 1 : 0]);
  if (datatype === "UINT64") return Buffer.from(new Uint8Array(BigUint64Array.of(BigInt(element)).buffer));
  const values = datatype === "FP32" ? Float32Array.of(Number(element)) : Int32Array.of(Number(element));
  return Buffer.from(values.buffer);
}
