/**
 * An RPC as the transport sees it: a path, a group for restrictions, and a handler of message bytes (gRPC over HTTP/2,
 * "Path").
 */
import type { Cancellation } from "../../../core/cancellation.ts";
import type { RequestTrace } from "../../../core/request-trace.ts";
import type { RestrictedApi } from "../../../core/restricted-api.ts";
import type { CallAccess } from "../../call-access.ts";

/** By lower-case name; of repeated keys the values with commas between. Without a prototype. */
export type Metadata = Readonly<Record<string, string>>;

/** A message to send: pieces in order; the first begins with five free bytes, which the transport fills. */
export interface OutgoingMessage extends ReadonlyArray<Uint8Array> {
  /** Called when the message is out: the memory of its pieces has another owner. */
  readonly release?: (() => void) | undefined;
}

/** A call as its handler sees it. */
export interface CallContext {
  readonly metadata: Metadata;
  /** Number of the call among those of its RPC, for the log. */
  readonly id: number;
  /** Aborted when the client is gone, gave up or ran out of time. */
  readonly cancellation: Cancellation;
  /** The API key of the caller; absent: calls need none. */
  readonly access: CallAccess | undefined;
  /** Trace of a unary call; set by the handler that samples it. The transport ends it with the call. */
  trace: RequestTrace | undefined;
}

export interface UnaryMethod {
  readonly kind: "unary";
  readonly group: RestrictedApi | undefined;
  /** Answers to inference may be compressed. */
  readonly isInference: boolean;
  handle(message: Uint8Array, call: CallContext): Promise<OutgoingMessage>;
}

export interface StreamMethod {
  readonly kind: "stream";
  readonly group: RestrictedApi | undefined;
  readonly isInference: boolean;
  /** Called when the call begins; the handler gets its messages. */
  open(call: StreamCall): StreamHandler;
}

export type GrpcMethod = UnaryMethod | StreamMethod;

export interface StreamCall extends CallContext {
  /** Sends one message; a promise when the client is behind, to await before producing more. */
  send(message: OutgoingMessage): Promise<void> | undefined;
  /** Ends the call with OK, once everything sent is out. */
  finish(): void;
  /** Logs the cause of what was thrown, if clients must not see it. */
  report(thrown: unknown): void;
  /** Ends the call with the status of what was thrown. */
  fail(thrown: unknown): void;
}

export interface StreamHandler {
  /** A throw ends the call. The promise, if there is one, never rejects: the bytes are read until it resolves. */
  message(bytes: Uint8Array): Promise<void> | undefined;
  /** The client sends no more. */
  halfClose(): void;
  /** The server drains; a handler that would wait for ever ends its call. */
  drain?(): void;
}
