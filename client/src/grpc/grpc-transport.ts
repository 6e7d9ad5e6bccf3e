/**
 * gRPC calls with their attempts, limits and errors of one class. Knows no message type. Source: gRPC over HTTP/2
 * (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
 */
import { runAttempts } from "../attempts.ts";
import type { CallOptions } from "../call-options.ts";
import { type HedgeOptions, RetryBudget, type RetryPolicy, retryPolicy } from "../call-policy.ts";
import { ClientError, inContext } from "../client-error.ts";
import { Deadline } from "../deadline.ts";
import type { ErrorContext } from "../error-details.ts";
import type { CompressionAlgorithm } from "../http/compress.ts";
import type { Channel } from "./channel.ts";
import type { GrpcCall } from "./grpc-call.ts";
import { compressFrame } from "./message-frames.ts";

export interface GrpcTransportOptions {
  readonly channel: Channel;
  readonly timeoutMs: number | undefined;
  readonly retry: RetryPolicy;
}

export interface UnaryCall extends ErrorContext {
  /** E.g. "ModelInfer". */
  readonly method: string;
  /** A framed message. */
  readonly pieces: readonly Uint8Array[];
  readonly compression?: CompressionAlgorithm | undefined;
  readonly hedge?: HedgeOptions | undefined;
  readonly isIdempotent: boolean;
}

/** A call that stays open. Its owner ends the deadline. */
export interface OpenCall {
  readonly call: GrpcCall;
  readonly deadline: Deadline;
  readonly explain: (error: unknown) => unknown;
}

const SERVICE = "/inference.GRPCInferenceService/";
/** DEADLINE_EXCEEDED and CANCELLED of the server: the client's own limit ended the call, or will at once. */
const DEADLINE_EXCEEDED = 4;

export class GrpcTransport {
  readonly #options: GrpcTransportOptions;
  readonly #budget = new RetryBudget();

  constructor(options: GrpcTransportOptions) {
    this.#options = options;
  }

  /** The only message of the response. @throws ClientError */
  async unary(call: UnaryCall, options: CallOptions): Promise<Uint8Array> {
    const deadline = this.#deadline(options);
    try {
      return await this.#attempts(call, options, deadline);
    } finally {
      deadline.end();
    }
  }

  async #attempts(call: UnaryCall, options: CallOptions, deadline: Deadline): Promise<Uint8Array> {
    const { compression } = call;
    const pieces = compression === undefined ? call.pieces : await compressFrame(call.pieces, compression);
    return await runAttempts(
      async (signal) => {
        const opened = this.#options.channel.open({
          path: SERVICE + call.method,
          headers: options.headers,
          compression,
          timeoutMs: remaining(deadline),
          signal,
        });
        opened.sendLast(pieces);
        return await opened.message();
      },
      {
        deadline,
        budget: this.#budget,
        retry: retryPolicy(options.retry, this.#options.retry),
        hedge: call.hedge,
        isIdempotent: call.isIdempotent,
        explain: (error) => explain(error, deadline, call.method, call),
      },
    );
  }

  /** A call of a stream; it is never tried again. */
  open(method: string, context: ErrorContext, options: CallOptions): OpenCall {
    const deadline = this.#deadline(options);
    const call = this.#options.channel.open({
      path: SERVICE + method,
      headers: options.headers,
      timeoutMs: remaining(deadline),
      signal: deadline.signal,
    });
    return { call, deadline, explain: (error) => explain(error, deadline, method, context) };
  }

  #deadline({ signal, timeoutMs = this.#options.timeoutMs }: CallOptions): Deadline {
    return new Deadline({ signal, timeoutMs });
  }
}

function remaining({ remainingMs }: Deadline): number | undefined {
  return Number.isFinite(remainingMs) ? remainingMs : undefined;
}

/** A call that its own client ended has no status: the deadline tells why it ended. */
function explain(error: unknown, deadline: Deadline, method: string, context: ErrorContext): unknown {
  const isOwnEnd = deadline.signal?.aborted === true;
  if (isOwnEnd) return deadline.explain(new Error("the call was aborted", { cause: error }), method, context);
  if (error instanceof ClientError && error.grpcStatus === DEADLINE_EXCEEDED && Number.isFinite(deadline.remainingMs)) {
    return new ClientError("timeout", `${method}: ${error.message}`, { ...context, grpcStatus: DEADLINE_EXCEEDED });
  }
  return inContext(deadline.explain(error, method, context), context);
}
