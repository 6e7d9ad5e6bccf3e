/**
 * Holds the replies of one turn of the event loop and sends them together at its end. Clients that wait are woken once
 * for all of them instead of once for each, and no request waits behind the writing of another's reply.
 */
import type { ServerResponse } from "node:http";
import type { HttpReply } from "./http-reply.ts";
import { sendReply } from "./send-reply.ts";

interface PendingReply {
  readonly response: ServerResponse;
  readonly reply: HttpReply;
}

export class ReplyBatch {
  #pending: PendingReply[] = [];
  readonly #onFailure: (error: unknown, response: ServerResponse) => void;
  readonly #flush = (): void => {
    const pending = this.#pending;
    this.#pending = [];
    for (const { response, reply } of pending) this.#send(response, reply);
  };

  /** `onFailure`: of one reply; the others go out all the same. */
  constructor(onFailure: (error: unknown, response: ServerResponse) => void) {
    this.#onFailure = onFailure;
  }

  add(response: ServerResponse, reply: HttpReply): void {
    if (this.#pending.push({ response, reply }) === 1) setImmediate(this.#flush);
  }

  #send(response: ServerResponse, reply: HttpReply): void {
    if (response.destroyed) return;
    try {
      sendReply(response, reply);
    } catch (error) {
      this.#onFailure(error, response);
    }
  }
}
