/**
 * gRPC status codes (https://github.com/grpc/grpc/blob/master/doc/statuscodes.md), the mapping of the server's errors
 * to them, and their percent-encoded form in trailers (gRPC over HTTP/2, "Status-Message").
 */
import { ProtoError } from "@nereid/wire";
import { AccessRefusal, type RefusalReason } from "../../access/access-refusal.ts";
import { type ErrorCode, ServerError } from "../../core/server-error.ts";

export const GRPC_STATUS = {
  ok: 0,
  cancelled: 1,
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  alreadyExists: 6,
  permissionDenied: 7,
  resourceExhausted: 8,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
} as const;

/** The refusal of new calls, and of new requests on open streams, by a server that stops. */
export const DRAINING = "GRPC server is shutting down and has stopped accepting new requests.";

const STATUS_OF_REFUSAL: Readonly<Record<RefusalReason, number>> = {
  unauthenticated: GRPC_STATUS.unauthenticated,
  forbidden: GRPC_STATUS.permissionDenied,
  limited: GRPC_STATUS.resourceExhausted,
  exhausted: GRPC_STATUS.resourceExhausted,
};

const STATUS_OF_CODE: Readonly<Record<ErrorCode, number>> = {
  unknown: GRPC_STATUS.unknown,
  internal: GRPC_STATUS.internal,
  not_found: GRPC_STATUS.notFound,
  invalid_argument: GRPC_STATUS.invalidArgument,
  unavailable: GRPC_STATUS.unavailable,
  unsupported: GRPC_STATUS.unimplemented,
  already_exists: GRPC_STATUS.alreadyExists,
  cancelled: GRPC_STATUS.cancelled,
};

/** An end of a call that the protocol itself decides, with a status that no `ServerError` has. */
export class GrpcError extends Error {
  readonly status: number;

  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "GrpcError";
    this.status = status;
  }

  /** Wraps anything thrown; what is neither kind of error says "Internal error" and keeps its cause for the log. */
  static from(thrown: unknown): GrpcError {
    if (thrown instanceof GrpcError) return thrown;
    if (thrown instanceof AccessRefusal) return new GrpcError(STATUS_OF_REFUSAL[thrown.reason], thrown.message);
    if (thrown instanceof ProtoError) {
      return new GrpcError(GRPC_STATUS.internal, "Unable to parse request", { cause: thrown });
    }
    const error = ServerError.from(thrown);
    return new GrpcError(STATUS_OF_CODE[error.code], error.message, { cause: error.cause });
  }
}

const SPACE = 0x20;

/**
 * The text of a grpc-message trailer: UTF-8, with all but visible ASCII and space as percent escapes. Spaces at the ends are
 * escaped too: a field value with them is malformed (RFC 9113, 8.2.1), and nghttp2 drops it.
 */
export function encodeGrpcMessage(message: string): string {
  if (!/[^ -$&-~]|^ | $/.test(message)) return message;
  const bytes = new TextEncoder().encode(message);
  let text = "";
  for (const [index, byte] of bytes.entries()) {
    const isEdge = byte === SPACE && (index === 0 || index === bytes.length - 1);
    const isPlain = byte >= SPACE && byte <= 0x7e && byte !== 0x25 && !isEdge;
    text += isPlain ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return text;
}

/** Trailers are headers, and a header block has a limit on the client's side. */
const MAX_MESSAGE_CHARS = 4096;

/** Names and values in turn. */
export function statusTrailers(status: number, message: string): readonly string[] {
  if (status === GRPC_STATUS.ok) return ["grpc-status", "0"];
  const text = message.length > MAX_MESSAGE_CHARS ? `${message.slice(0, MAX_MESSAGE_CHARS)}...` : message;
  return ["grpc-status", String(status), "grpc-message", encodeGrpcMessage(text)];
}
