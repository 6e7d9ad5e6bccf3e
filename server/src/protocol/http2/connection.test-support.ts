/** One connection with the server's side as `Http2Connection` and the client's as a bare socket (RFC 9113). */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import type { TestContext } from "node:test";
import { FLAG, FRAME, type Http2Fault, PREFACE } from "./codes.ts";
import { Http2Connection } from "./connection.ts";
import type { ConnectionListener } from "./connection-listener.ts";
import { uint32 } from "./frame-rules.ts";
import { settingsPayload } from "./peer-settings.ts";
import type { Http2Stream } from "./stream.ts";

export const LIMITS = {
  maxStreams: 3,
  maxHeaderListBytes: 1000,
  streamWindowBytes: 1000,
  connectionWindowBytes: 100_000,
};
/** GET / over http, all from the static table. */
export const HEAD: Buffer = Buffer.from("828684", "hex");
export const CLOSING: number = FLAG.endHeaders | FLAG.endStream;

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly id: number;
  readonly payload: Buffer;
}

/** The server's side with its streams, and the client's bare socket. */
export class Pair implements ConnectionListener {
  readonly streams: Http2Stream[] = [];
  readonly pieces: string[] = [];
  fault: Http2Fault | undefined;
  isClosed = false;
  serverSocket: Socket | undefined;
  connection: Http2Connection | undefined;
  readonly client: Socket;
  #received: Buffer = Buffer.alloc(0);

  constructor(client: Socket) {
    this.client = client;
    client.on("data", (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
    });
    client.on("error", () => client.destroy());
  }

  stream(stream: Http2Stream): void {
    this.streams.push(stream);
    const say = (what: string): void => void this.pieces.push(`${stream.id} ${what}`);
    stream.listener = {
      data: (piece) => say(`data ${piece.length}`),
      end: () => say("end"),
      closed: () => say("closed"),
    };
  }

  pinged(): void {
    this.pieces.push("ping");
  }

  goneAway(): void {
    this.connection?.leave();
  }

  closed(fault: Http2Fault | undefined): void {
    this.fault = fault;
    this.isClosed = true;
  }

  frames(): Frame[] {
    const frames: Frame[] = [];
    const bytes = this.#received;
    for (let at = 0; at + 9 <= bytes.length; ) {
      const end = at + 9 + bytes.readUIntBE(at, 3);
      if (end > bytes.length) break;
      const [type = 0, flags = 0] = bytes.subarray(at + 3, at + 5);
      frames.push({ type, flags, id: bytes.readUInt32BE(at + 5), payload: bytes.subarray(at + 9, end) });
      at = end;
    }
    return frames;
  }

  /** Waits until the client has received what it is asked for. */
  async until(type: number, id?: number, count = 1): Promise<Frame> {
    for (;;) {
      const found = this.frames().filter((frame) => frame.type === type && (id === undefined || frame.id === id));
      const wanted = found[count - 1];
      if (wanted !== undefined) return wanted;
      await once(this.client, "data");
    }
  }

  /** Separate writes may arrive as separate chunks. */
  async untilStreams(count: number): Promise<void> {
    while (this.streams.length < count) await new Promise((resolve) => setTimeout(resolve, 5));
  }

  async untilClosed(): Promise<void> {
    if (!this.client.closed) await once(this.client, "close");
    while (!this.isClosed) await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

export async function open(
  context: TestContext,
  { handshake = true, halfOpen = false }: { handshake?: boolean; halfOpen?: boolean } = {},
): Promise<Pair> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const accepted = once(server, "connection");
  const { port } = server.address() as AddressInfo;
  const pair = new Pair(connect({ port, host: "127.0.0.1", allowHalfOpen: halfOpen }));
  const [socket] = (await accepted) as [Socket];
  pair.serverSocket = socket;
  pair.connection = new Http2Connection(socket, LIMITS, pair);
  pair.connection.start();
  if (handshake) pair.client.write(Buffer.concat([PREFACE, frame(FRAME.settings, 0, 0)]));
  context.after(() => {
    pair.client.destroy();
    socket.destroy();
    server.close();
  });
  return pair;
}

export function frame(type: number, flags: number, id: number, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  const length = uint32(payload.length).subarray(1);
  return Buffer.concat([length, Buffer.from([type, flags]), uint32(id), payload]);
}

export function setting(id: number, value: number): Buffer {
  return frame(FRAME.settings, 0, 0, settingsPayload([[id, value]]));
}

export function repeat(bytes: Buffer, count: number): Buffer {
  return Buffer.concat(Array.from({ length: count }, () => bytes));
}

/** A request whose body follows. */
export const OPEN: Buffer = frame(FRAME.headers, FLAG.endHeaders, 1, HEAD);
