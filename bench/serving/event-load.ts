/**
 * Clients that each read one long stream after the other, as server-sent events or from gRPC, count what comes, and note how
 * long after it was due. Plain sockets, so that the client costs less than the server.
 */
import { connect, type Socket } from "node:net";
import { hrtime } from "node:process";
import {
  FLAG,
  FRAME,
  FrameSplitter,
  frame,
  literalField,
  openSettings,
  PREFACE,
  windowUpdate,
} from "../../perf/src/load/http2-frame.ts";
import { LatencyHistogram } from "./latency-histogram.ts";
import { grpcMessage } from "./messages.ts";

export interface EventLoad {
  /** Events since the last reset. */
  count: number;
  /** From the time when the model was to make an event to its arrival here; of paced streams only. */
  readonly latency: LatencyHistogram;
  stop(): void;
}

/** Streams of `tokens`, with an event each `periodUs`, or of `repeat`: as many as the server can, `count` in one stream. */
export type StreamShape =
  | { readonly kind: "paced"; readonly periodUs: number; readonly inStep?: boolean }
  | { readonly kind: "unpaced"; readonly count: number };

const HOST = "127.0.0.1";
/** More than a run reads. */
const ENDLESS = 2 ** 31 - 1;
const EVENT_END = Buffer.from("\n\n");
const DUE = Buffer.from('"DUE_US":');
const LAST_CHUNK = Buffer.from("0\r\n\r\n");
/** Bytes that may follow an event and belong to none: the end of a chunk. */
const FRAMING_BYTES = 2;
const GRPC_PREFIX_BYTES = 5;
/** Behind the due time in a message: its four bytes, and a field of four bytes with tag and length. */
const DUE_FROM_END = 10;
const CLOCK_MASK = 0x7fff_ffff;
const US_PER_NS = 1000n;
const STREAM_PATH = "/inference.GRPCInferenceService/ModelStreamInfer";
const MAX_WINDOW_MORE: number = 2 ** 31 - 1 - 65_535;

interface Input {
  readonly name: string;
  readonly value: number;
  readonly count: number;
}

/** Streams that all begin at once would beat in step for ever, unless that is what is asked for. */
function inputsOf(shape: StreamShape, k: number, numClients: number): { model: string; inputs: readonly Input[] } {
  if (shape.kind === "unpaced") return { model: "repeat", inputs: [{ name: "IN", value: 7, count: shape.count }] };
  const phaseUs = shape.inStep === true ? 0 : Math.floor((k / numClients) * shape.periodUs);
  const values = { COUNT: ENDLESS, PERIOD_US: shape.periodUs, PHASE_US: phaseUs };
  return { model: "tokens", inputs: Object.entries(values).map(([name, value]) => ({ name, value, count: 1 })) };
}

function nowUs(): number {
  return Number(hrtime.bigint() / US_PER_NS) & CLOCK_MASK;
}

class Counted implements EventLoad {
  readonly latency: LatencyHistogram = new LatencyHistogram();
  readonly sockets: Socket[] = [];
  count = 0;

  event(dueUs: number | undefined, arrivalUs: number): void {
    this.count += 1;
    if (dueUs !== undefined) this.latency.add((arrivalUs - dueUs) & CLOCK_MASK);
  }

  stop(): void {
    for (const socket of this.sockets) socket.destroy();
  }
}

export function startEventStreams(port: number, shape: StreamShape, numClients: number): EventLoad {
  const requests = Array.from({ length: numClients }, (_, k) => {
    const { model, inputs } = inputsOf(shape, k, numClients);
    const values = inputs.map(({ name, value, count }) => [name, new Array<number>(count).fill(value)]);
    return { model, body: JSON.stringify(Object.fromEntries(values)) };
  });
  return readEventStreams(port, requests);
}

/** A client for each request, which sends it again when its stream has ended. */
export function readEventStreams(
  port: number,
  requests: readonly { readonly model: string; readonly body: string }[],
): EventLoad {
  const load = new Counted();
  for (const { model, body } of requests) {
    const head = `POST /v2/models/${model}/generate_stream HTTP/1.1\r\nHost: ${HOST}\r\nContent-Length: ${body.length}\r\n\r\n`;
    load.sockets.push(startReader(port, Buffer.from(head + body), load));
  }
  return load;
}

function startReader(port: number, request: Buffer, load: Counted): Socket {
  const socket = connect({ port, host: HOST, noDelay: true });
  let kept: Buffer | undefined;
  socket.on("connect", () => socket.write(request));
  socket.on("data", (chunk: Buffer) => {
    const bytes = kept === undefined ? chunk : Buffer.concat([kept, chunk]);
    const rest = bytes.subarray(readEvents(bytes, load));
    const isOver = rest.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK);
    kept = isOver || rest.length <= FRAMING_BYTES ? undefined : rest;
    if (isOver) socket.write(request);
  });
  return socket;
}

/** @returns where the first event begins that is not whole */
function readEvents(bytes: Buffer, load: Counted): number {
  const arrivalUs = nowUs();
  let from = 0;
  for (let end = bytes.indexOf(EVENT_END); end >= 0; end = bytes.indexOf(EVENT_END, from)) {
    const at = bytes.indexOf(DUE, from);
    load.event(at >= 0 && at < end ? digitsAt(bytes, at + DUE.length) : undefined, arrivalUs);
    from = end + EVENT_END.length;
  }
  return from;
}

function digitsAt(bytes: Buffer, from: number): number {
  let value = 0;
  for (let at = from, digit = (bytes[at] ?? 0) - 48; digit >= 0 && digit <= 9; digit = (bytes[++at] ?? 0) - 48) {
    value = value * 10 + digit;
  }
  return value;
}

export function startGrpcStreams(
  port: number,
  shape: StreamShape,
  numConnections: number,
  numClients: number,
): EventLoad {
  const messages = Array.from({ length: numClients }, (_, k) => grpcRequest(inputsOf(shape, k, numClients)));
  return readGrpcStreams(port, messages, numConnections, shape.kind === "paced");
}

/** A stream for each request, over connections in turn, which is sent again when its stream has ended. */
export function readGrpcStreams(
  port: number,
  messages: readonly Uint8Array[],
  numConnections: number,
  isPaced: boolean,
): EventLoad {
  const load = new Counted();
  const bodies = messages.map(grpcBody);
  for (let k = 0; k < numConnections; k++) {
    const own = bodies.filter((_, client) => client % numConnections === k);
    load.sockets.push(startConnection(port, own, isPaced, load));
  }
  return load;
}

function grpcRequest({ model, inputs }: ReturnType<typeof inputsOf>): Uint8Array {
  return grpcMessage(
    model,
    inputs.map(({ name, value, count }) => ({
      name,
      datatype: "INT32",
      shape: [count],
      values: new Int32Array(count).fill(value),
    })),
  );
}

/** The request, framed as gRPC does. */
function grpcBody(message: Uint8Array): Buffer {
  const body = Buffer.alloc(GRPC_PREFIX_BYTES + message.length);
  body.writeUInt32BE(message.length, 1);
  body.set(message, GRPC_PREFIX_BYTES);
  return body;
}

function startConnection(port: number, bodies: readonly Buffer[], isPaced: boolean, load: Counted): Socket {
  const socket = connect({ port, host: HOST, noDelay: true });
  const bodyOf = new Map<number, Buffer>();
  let nextId = 1;
  const begin = (body: Buffer): void => {
    const head = frame(FRAME.headers, FLAG.endHeaders, nextId, headerBlock());
    socket.write(Buffer.concat([head, frame(FRAME.data, FLAG.endStream, nextId, body)]));
    bodyOf.set(nextId, body);
    nextId += 2;
  };
  let arrivalUs = 0;
  let kept: Buffer | undefined;
  const splitter = new FrameSplitter({
    // A small message is one frame, which may come in two parts.
    data: (_id, part) => {
      const bytes = kept === undefined ? part : Buffer.concat([kept, part]);
      const isWhole = bytes.length >= GRPC_PREFIX_BYTES && bytes.length >= GRPC_PREFIX_BYTES + bytes.readUInt32BE(1);
      kept = isWhole ? undefined : bytes;
      if (isWhole) load.event(isPaced ? bytes.readInt32LE(bytes.length - DUE_FROM_END) : undefined, arrivalUs);
    },
    control: (type, flags, id, payload) => {
      if (type === FRAME.headers && (flags & FLAG.endStream) !== 0) {
        begin(bodyOf.get(id) ?? Buffer.alloc(0));
        bodyOf.delete(id);
      } else if (type === FRAME.settings && (flags & FLAG.ack) === 0) {
        socket.write(frame(FRAME.settings, FLAG.ack, 0, Buffer.alloc(0)));
      } else if (type === FRAME.goAway) throw new Error(payload.subarray(8).toString());
    },
  });
  socket.on("data", (chunk: Buffer) => {
    arrivalUs = nowUs();
    splitter.push(chunk);
  });
  socket.on("connect", () => {
    socket.write(Buffer.concat([PREFACE, openSettings(), windowUpdate(0, MAX_WINDOW_MORE)]));
    for (const body of bodies) begin(body);
  });
  return socket;
}

function headerBlock(): Buffer {
  // ":method POST", ":scheme http", then ":path", "content-type", "te". The names and values enter the table each time.
  return Buffer.concat([
    Buffer.from([0x83, 0x86]),
    literalField(4, STREAM_PATH),
    literalField(31, "application/grpc"),
    literalField("te", "trailers"),
  ]);
}
