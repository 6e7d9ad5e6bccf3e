/**
 * The flags of an iterative sequence: every request is a sequence of its own, and clients need not name it. START marks its
 * first execution; which one is the last only the backend knows.
 */
import type { SequenceInfo } from "../../core/infer-request.ts";
import type { CorrelationControl } from "./controls.ts";

export class IterativeFlags {
  readonly #isText: boolean;
  #last = 0n;

  constructor(correlation: CorrelationControl | undefined) {
    this.#isText = correlation?.datatype === "BYTES";
  }

  /** Of a request's first execution, with an id of our own where the client gave none. */
  first({ id }: SequenceInfo): SequenceInfo {
    return { id: id === "" || id === 0n ? this.#invent() : id, start: true, end: false };
  }

  #invent(): bigint | string {
    this.#last += 1n;
    return this.#isText ? `iterative-${this.#last}` : this.#last;
  }
}
