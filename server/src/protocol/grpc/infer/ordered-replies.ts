/**
 * Holds replies back until those of all earlier requests are sent. Source: own design, for the order that Triton's gRPC
 * extension promises.
 */
import type { OutgoingMessage } from "../routes/method.ts";

/** The replies of one request. */
export interface ReplySlot {
  add(message: OutgoingMessage): void;
  /** No more replies; those of the next request may go. */
  close(): void;
}

interface Slot extends ReplySlot {
  readonly waiting: OutgoingMessage[];
  isClosed: boolean;
}

export class OrderedReplies {
  readonly #send: (message: OutgoingMessage) => void;
  /** Slots not fully sent, by the number of their request. */
  readonly #slots = new Map<number, Slot>();
  #head = 0;
  #next = 0;

  constructor(send: (message: OutgoingMessage) => void) {
    this.#send = send;
  }

  /** Reserves the next position. */
  open(): ReplySlot {
    const number = this.#next++;
    const slot: Slot = {
      waiting: [],
      isClosed: false,
      add: (message) => {
        if (number === this.#head) this.#send(message);
        else slot.waiting.push(message);
      },
      close: () => {
        slot.isClosed = true;
        if (number === this.#head) this.#advance();
      },
    };
    this.#slots.set(number, slot);
    return slot;
  }

  #advance(): void {
    for (let slot = this.#slots.get(this.#head); slot?.isClosed === true; slot = this.#slots.get(this.#head)) {
      this.#slots.delete(this.#head);
      this.#head += 1;
      const next = this.#slots.get(this.#head);
      for (const message of next?.waiting.splice(0) ?? []) this.#send(message);
    }
  }
}
