/**
 * Tells the end of responses, those too that wait for their turn on a connection whose client sends the next request without
 * waiting for an answer: Node tells of a lost connection only the one whose turn it is. Knows no request.
 */
import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

export class QueuedResponses {
  /** Those that had to wait, by connection, and what is to be done at their end. */
  readonly #waiting = new WeakMap<Duplex, Map<ServerResponse, () => void>>();

  /** `ended`: called once, when the connection has taken the response or is gone. To be called as soon as the request is there. */
  onClose(connection: Duplex, response: ServerResponse, ended: () => void): void {
    if (response.socket !== null) {
      response.once("close", ended);
      return;
    }
    const waiting = this.#of(connection);
    waiting.set(response, ended);
    response.once("close", () => {
      if (waiting.delete(response)) ended();
    });
  }

  #of(connection: Duplex): Map<ServerResponse, () => void> {
    const known = this.#waiting.get(connection);
    if (known !== undefined) return known;
    const waiting = new Map<ServerResponse, () => void>();
    this.#waiting.set(connection, waiting);
    connection.once("close", () => {
      for (const [response, ended] of waiting) {
        response.destroy();
        ended();
      }
      waiting.clear();
    });
    return waiting;
  }
}
