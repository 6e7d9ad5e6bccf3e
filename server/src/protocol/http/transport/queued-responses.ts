/**
 * Pipelined responses that wait for their turn on a connection (RFC 9112, 9.3.2). When the connection is lost, Node
 * notifies only the current response; the others are notified here. Knows no request.
 */
import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

export class QueuedResponses {
  readonly #waiting = new WeakMap<Duplex, Set<ServerResponse>>();

  /** To be called as soon as the request is there: a response that has no socket then has to wait. */
  add(connection: Duplex, response: ServerResponse): void {
    if (response.socket !== null) return;
    const waiting = this.#of(connection);
    waiting.add(response);
    response.once("close", () => waiting.delete(response));
  }

  #of(connection: Duplex): Set<ServerResponse> {
    const known = this.#waiting.get(connection);
    if (known !== undefined) return known;
    const waiting = new Set<ServerResponse>();
    this.#waiting.set(connection, waiting);
    connection.once("close", () => {
      for (const response of waiting) if (response.socket === null) end(response);
    });
    return waiting;
  }
}

function end(response: ServerResponse): void {
  response.destroy();
  response.emit("close");
}
