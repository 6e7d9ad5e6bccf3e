/**
 * Clients that each read one long stream after the other, as server-sent events or from gRPC, and count what comes. Plain
 * sockets, so that the client costs less than the server. Knows the end of an event, not what is in it.
 */
import { connect, type Socket } from "node:net";
import { FLAG, FRAME, FrameSplitter, frame, literalField, openSettings, PREFACE, windowUpdate } from "./http2-frame.ts";

export interface EventLoad {
  /** Events since the last reset. */
  count: number;
  stop(): void;
}

/** Events of a stream, and the time between two of them; 0: as fast as the server can. */
export interface StreamShape {
  readonly numEvents: number;
  readonly delayMs: number;
}

const HOST = "127.0.0.1";
const EVENT_END = Buffer.from("\n\n");
const LAST_CHUNK = Buffer.from("0\r\n\r\n");
const STREAM_PATH = "/inference.GRPCInferenceService/ModelStreamInfer";
const MAX_WINDOW_MORE: number = 2 ** 31 - 1 - 65_535;

export function startEventStreams(port: number, shape: StreamShape, numClients: number): EventLoad {
  const list = (value: number): number[] => new Array<number>(shape.numEvents).fill(value);
  const delays = shape.delayMs > 0 ? { DELAY: list(shape.delayMs) } : {};
  const body = JSON.stringify({ IN: list(7), ...delays });
  const head = `POST /v2/models/repeat/generate_stream HTTP/1.1\r\nHost: ${HOST}\r\nContent-Length: ${body.length}\r\n\r\n`;
  const request = Buffer.from(head + body);
  const sockets: Socket[] = [];
  const load: EventLoad = {
    count: 0,
    stop: () => {
      for (const socket of sockets) socket.destroy();
    },
  };
  for (let k = 0; k < numClients; k++) sockets.push(startReader(port, request, load, (k / numClients) * shape.delayMs));
  return load;
}

function startReader(port: number, request: Buffer, load: EventLoad, waitMs: number): Socket {
  const socket = connect({ port, host: HOST, noDelay: true });
  // Streams that all begin at once would beat in step for ever.
  socket.on("connect", () => setTimeout(() => socket.write(request), waitMs));
  socket.on("data", (chunk: Buffer) => {
    for (let at = chunk.indexOf(EVENT_END); at >= 0; at = chunk.indexOf(EVENT_END, at + 2)) load.count += 1;
    const isOver = chunk.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK);
    if (isOver) socket.write(request);
  });
  return socket;
}

/** `message`: the request, framed as gRPC does. */
export function startGrpcStreams(
  port: number,
  message: Uint8Array,
  numConnections: number,
  numClients: number,
): EventLoad {
  const sockets: Socket[] = [];
  const load: EventLoad = {
    count: 0,
    stop: () => {
      for (const socket of sockets) socket.destroy();
    },
  };
  const body = Buffer.alloc(5 + message.length);
  body.writeUInt32BE(message.length, 1);
  body.set(message, 5);
  for (let k = 0; k < numConnections; k++) {
    sockets.push(startConnection(port, body, numClients / numConnections, load));
  }
  return load;
}

function startConnection(port: number, body: Buffer, numClients: number, load: EventLoad): Socket {
  const socket = connect({ port, host: HOST, noDelay: true });
  let nextId = 1;
  const begin = (): void => {
    const head = frame(FRAME.headers, FLAG.endHeaders, nextId, headerBlock());
    socket.write(Buffer.concat([head, frame(FRAME.data, FLAG.endStream, nextId, body)]));
    nextId += 2;
  };
  const splitter = new FrameSplitter({
    // One message is one frame: small messages are not cut.
    data: () => {
      load.count += 1;
    },
    control: (type, flags, _id, payload) => {
      if (type === FRAME.headers && (flags & FLAG.endStream) !== 0) begin();
      else if (type === FRAME.settings && (flags & FLAG.ack) === 0) {
        socket.write(frame(FRAME.settings, FLAG.ack, 0, Buffer.alloc(0)));
      } else if (type === FRAME.goAway) throw new Error(payload.subarray(8).toString());
    },
  });
  socket.on("data", (chunk: Buffer) => splitter.push(chunk));
  socket.on("connect", () => {
    socket.write(Buffer.concat([PREFACE, openSettings(), windowUpdate(0, MAX_WINDOW_MORE)]));
    for (let k = 0; k < numClients; k++) setTimeout(begin, Math.random() * 50);
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
