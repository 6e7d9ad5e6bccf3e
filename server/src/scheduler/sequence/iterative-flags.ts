/**
 * Flags of iterative sequences (`iterative_sequence`): every request is its own sequence, without flags of the client.
 * START marks its first execution; only the backend knows the last one.
 */
import type { SequenceInfo } from "../../core/infer-request.ts";
import type { CorrelationControl } from "./controls.ts";

export class IterativeFlags {
  readonly #isText: boolean;
  #last = 0n;

  constructor(correlation: CorrelationControl | undefined) {
    this.#isText = correlation?.datatype === "BYTES";
  }

  /** For a request's first execution; generates an id when the client gave none. */
  first({ id }: SequenceInfo): SequenceInfo {
    return { id: id === "" || id === 0n ? this.#invent() : id, start: true, end: false };
  }

  #invent(): bigint | string {
    this.#last += 1n;
    return this.#isText ? `iterative-${this.#last}` : this.#last;
  }
}
