/** One request and its answer, as the connections of a load generator see it. Knows no protocol. */

/** Receives the parts of an answer. Exactly one `end` comes last. */
export interface AnswerSink {
  /** A part of the body of HTTP, or one whole message of gRPC. Absent: only the end matters. */
  part?(bytes: Buffer): void;
  /** `failure` says why the answer does not count; undefined when it is whole and good. */
  end(failure: string | undefined): void;
}

/** Bytes of a failed answer that are kept for its message. */
export const FAILURE_BYTES = 2000;
