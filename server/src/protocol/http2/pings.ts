/** Unanswered PING frames of this side (RFC 9113, 6.7). */
import { FRAME } from "./codes.ts";
import { uint32 } from "./frame-rules.ts";
import type { FrameWriter } from "./frame-writer.ts";

export class Pings {
  readonly #writer: FrameWriter;
  readonly #callbacks = new Map<number, () => void>();
  #nextId = 1;

  constructor(writer: FrameWriter) {
    this.#writer = writer;
  }

  /** `callback`: the answer has come; never called when the connection ends first. */
  send(callback: () => void): void {
    const id = this.#nextId++;
    this.#callbacks.set(id, callback);
    this.#writer.frame(FRAME.ping, 0, 0, Buffer.concat([uint32(0), uint32(id)]));
  }

  answered(payload: Buffer): void {
    const id = payload.readUInt32BE(4);
    const callback = this.#callbacks.get(id);
    this.#callbacks.delete(id);
    callback?.();
  }
}
