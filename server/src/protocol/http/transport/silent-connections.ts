/**
 * Connections without a request so far. Node counts them as busy for up to a minute, so a closing server has to know
 * them. Clients open such connections in advance (RFC 9112, 9.5), and some health checks do no more.
 */
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";

/** A connection older than this without a request head is idle, not slow. */
const MAX_SILENCE_MS = 1000;

export class SilentConnections {
  readonly #sinceMs = new Map<Duplex, number>();
  /** Connections in the TLS handshake, by client address: the TLS socket does not name its raw socket. */
  readonly #raw = new Map<string, Socket>();

  /** A connection that is to begin with TLS. Clients on sockets of files have no address: theirs end by the time of the handshake. */
  addRaw(socket: Socket): void {
    const client = clientOf(socket);
    if (client === undefined) return;
    this.#raw.set(client, socket);
    this.add(socket);
    socket.once("close", () => {
      // A client that broke off may have come again from the same port before its end is noticed.
      if (this.#raw.get(client) === socket) this.#raw.delete(client);
    });
  }

  /** TLS is agreed on, and stands for the raw connection from now on. */
  addSecure(socket: Socket): void {
    const raw = this.#raw.get(clientOf(socket) ?? "");
    if (raw !== undefined) this.heard(raw);
    this.add(socket);
  }

  add(socket: Duplex): void {
    this.#sinceMs.set(socket, performance.now());
    socket.once("close", () => this.heard(socket));
  }

  /** A request has come on it, or it is no concern of HTTP/1.1. */
  heard(socket: Duplex): void {
    this.#sinceMs.delete(socket);
  }

  closeOld(): void {
    const latestMs = performance.now() - MAX_SILENCE_MS;
    for (const [socket, sinceMs] of this.#sinceMs) if (sinceMs <= latestMs) socket.destroy();
  }

  closeAll(): void {
    for (const socket of this.#sinceMs.keys()) socket.destroy();
  }
}

function clientOf({ remoteAddress, remotePort }: Socket): string | undefined {
  return remoteAddress === undefined ? undefined : `${remoteAddress} ${remotePort}`;
}
