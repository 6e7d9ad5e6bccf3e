/** Clients of HTTP/1.1 that nobody wants: they send any bytes, stop anywhere, and only report what came back. */
import { Agent, request } from "node:http";
import { connect, type Socket } from "node:net";
import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";

const HOST = "127.0.0.1";
/** Without a byte in either direction: a server that is only slow is still at work. */
const ANSWER_TIMEOUT_MS = 120_000;

export interface Reply {
  readonly status: number;
  readonly contentType: string;
  readonly body: Buffer;
  /** The server says that it ends the connection. */
  readonly isLast: boolean;
}

export interface Outgoing {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string;
  /** In place of a body: asked for one after the other. `Content-Length` is then among the headers. */
  readonly parts?: AsyncIterable<Uint8Array>;
}

/** A number of connections that are kept open between requests. */
export class KeepAliveClient implements Disposable {
  readonly #port: number;
  readonly #agent: Agent;

  constructor(port: number, numConnections: number) {
    this.#port = port;
    this.#agent = new Agent({ keepAlive: true, maxSockets: numConnections });
  }

  /** @throws the error of the socket, or one that says that no answer came */
  send({ method = "POST", path, headers = {}, body = "", parts }: Outgoing): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const bytes = Buffer.from(body);
      const options = { host: HOST, port: this.#port, agent: this.#agent, method, path };
      const length = parts === undefined ? { "Content-Length": bytes.length } : {};
      const outgoing = request({ ...options, headers: { ...length, ...headers } }, (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
        incoming.on("error", reject);
        incoming.on("end", () => {
          const contentType = incoming.headers["content-type"] ?? "";
          const isLast = incoming.headers.connection === "close";
          resolve({ status: incoming.statusCode ?? 0, contentType, body: Buffer.concat(chunks), isLast });
        });
      });
      outgoing.setTimeout(ANSWER_TIMEOUT_MS, () => outgoing.destroy(new Error(`${method} ${path}: no answer`)));
      outgoing.on("error", reject);
      if (parts === undefined) outgoing.end(bytes);
      else Readable.from(parts).on("error", reject).pipe(outgoing);
    });
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }
}

export interface RawOutcome {
  /** All that came back. */
  readonly text: string;
  /** Status codes in order of arrival. */
  readonly statuses: readonly number[];
  /** The server ended the connection within the time. */
  readonly isClosed: boolean;
}

/** How long a machine that is busy may take to answer. */
const MAX_WAIT_MS = 120_000;
/** An answer too many would come by then. */
const QUIET_MS = 200;

/**
 * Sends the pieces on a socket of their own, each in a packet, and reads until the server closes the connection, or until
 * `numAnswers` have come and nothing follows.
 */
export async function sendRaw(
  port: number,
  pieces: readonly (string | Uint8Array)[],
  numAnswers = Number.POSITIVE_INFINITY,
): Promise<RawOutcome> {
  const socket = connect(port, HOST);
  socket.setNoDelay(true);
  let text = "";
  let isClosed = false;
  let lastMs = performance.now();
  socket.on("data", (chunk: Buffer) => {
    text += chunk.toString("latin1");
    lastMs = performance.now();
  });
  socket.on("error", () => undefined);
  socket.on("close", () => {
    isClosed = true;
  });
  for (const piece of pieces) {
    if (isClosed) break;
    await write(socket, piece);
    lastMs = performance.now();
  }
  const statuses = (): number[] => [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
  const quietMs = (): number => (statuses().length < numAnswers ? MAX_WAIT_MS : QUIET_MS);
  while (!isClosed && performance.now() - lastMs < quietMs()) await sleep(5);
  socket.destroy();
  return { text, statuses: statuses(), isClosed };
}

function write(socket: Socket, piece: string | Uint8Array): Promise<void> {
  return new Promise((resolve) => socket.write(piece, () => resolve()));
}
