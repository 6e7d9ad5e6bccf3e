/** Counts the bytes of logits that running requests may get: rows are kept until they are sent. */
import { MAX_ENGINE_LOGITS_BYTES } from "../../core/limits.ts";
import { ServerError } from "../../core/server-error.ts";
import type { Sequence } from "../request/sequence.ts";

export class LogitsBudget {
  readonly #bytes = new Map<Sequence, number>();

  /** @throws ServerError while others take too many for a request of that many bytes */
  check(bytes: number): void {
    if (bytes === 0) return;
    let total = bytes;
    for (const other of this.#bytes.values()) total += other;
    if (total <= MAX_ENGINE_LOGITS_BYTES) return;
    throw new ServerError(
      "unavailable",
      `the requests under way ask for ${total - bytes} bytes of logits, ${bytes} more would exceed ` +
        `${MAX_ENGINE_LOGITS_BYTES}: try again later`,
    );
  }

  take(sequence: Sequence, bytes: number): void {
    if (bytes > 0) this.#bytes.set(sequence, bytes);
  }

  giveBack(sequence: Sequence): void {
    this.#bytes.delete(sequence);
  }
}
