/**
 * Collects the replies of one turn of the event loop and sends them together at its end. Waiting clients are woken
 * once, and no request waits for the write of another's reply. Large replies go at once: they are still in the
 * processor's cache. Source: own design.
 */
import type { ServerResponse } from "node:http";
import type { HttpReply } from "../http-reply.ts";
import { sendReply } from "./send-reply.ts";

/** The largest body that waits for the end of the turn. */
const MAX_HELD_BYTES = 16_384;

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
    if (isLarge(reply)) this.#send(response, reply);
    else if (this.#pending.push({ response, reply }) === 1) setImmediate(this.#flush);
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

function isLarge({ body }: HttpReply): boolean {
  let size = 0;
  for (const part of body) size += part.length;
  return size > MAX_HELD_BYTES;
}
