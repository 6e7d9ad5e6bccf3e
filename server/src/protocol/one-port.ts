/** Lets HTTP/1.1 and HTTP/2 share a port: by ALPN over TLS (RFC 7301), or by the connection preface (RFC 9113, 3.4). */
import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";

/** The start of the HTTP/2 connection preface (RFC 9113, 3.4). No HTTP/1.1 request starts so: PRI is no method. */
const PREFACE: Buffer = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
/** A client that does not say a word for this long is not waited for. */
const MAX_SILENCE_MS = 60_000;

type Accept = (socket: Socket) => void;

/** Connections of HTTP/2 go to `acceptHttp2`, all others where they went before. */
export function shareListener(server: Server, isTls: boolean, acceptHttp2: Accept): void {
  const adoptHttp2: Accept = (socket) => {
    // HTTP servers keep the half of a connection that a client has left open; HTTP/2 has no use for it.
    socket.allowHalfOpen = false;
    acceptHttp2(socket);
  };
  const event = isTls ? "secureConnection" : "connection";
  const before = server.listeners(event) as Accept[];
  server.removeAllListeners(event);
  const acceptHttp1: Accept = (socket) => {
    for (const listener of before) listener.call(server, socket);
  };
  server.on(event, (socket: Socket) => {
    if (isTls) ((socket as TLSSocket).alpnProtocol === "h2" ? adoptHttp2 : acceptHttp1)(socket);
    else new Sniffer(socket, acceptHttp1, adoptHttp2).look();
  });
}

/** Undefined: too little to tell. */
export function isHttp2Start(bytes: Uint8Array): boolean | undefined {
  const length = Math.min(bytes.length, PREFACE.length);
  if (PREFACE.compare(bytes, 0, length, 0, length) !== 0) return false;
  return length === PREFACE.length ? true : undefined;
}

class Sniffer {
  readonly #socket: Socket;
  readonly #acceptHttp1: Accept;
  readonly #acceptHttp2: Accept;
  readonly #timer: NodeJS.Timeout;
  readonly #onReadable = (): void => this.look();
  readonly #onEnd = (): void => this.#stop();
  #start: Buffer = Buffer.alloc(0);

  constructor(socket: Socket, acceptHttp1: Accept, acceptHttp2: Accept) {
    this.#socket = socket;
    this.#acceptHttp1 = acceptHttp1;
    this.#acceptHttp2 = acceptHttp2;
    this.#timer = setTimeout(() => socket.destroy(), MAX_SILENCE_MS).unref();
    socket.on("readable", this.#onReadable);
    socket.on("error", this.#onEnd);
    socket.on("close", this.#onEnd);
  }

  /** Takes what has come; goes on waiting when it is too little to tell. */
  look(): void {
    const chunk = this.#socket.read() as Buffer | null;
    if (chunk === null) return;
    this.#start = Buffer.concat([this.#start, chunk]);
    const isHttp2 = isHttp2Start(this.#start);
    if (isHttp2 !== undefined) this.#hand(isHttp2 ? this.#acceptHttp2 : this.#acceptHttp1);
  }

  #hand(accept: Accept): void {
    this.#stop();
    this.#socket.unshift(this.#start);
    accept(this.#socket);
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#socket.off("readable", this.#onReadable);
    this.#socket.off("error", this.#onEnd);
    this.#socket.off("close", this.#onEnd);
    // A client that leaves before it has said what it is: somebody must hear of the error.
    if (this.#start.length === 0) this.#socket.destroy();
  }
}
