/** One row of the table of limits, and how a refusal is read. */
import { ProtoError } from "@nereid/wire";
import { ServerError } from "../../server/src/core/server-error.ts";
import { ApiError } from "../../server/src/protocol/api/api-error.ts";
import { GrpcError } from "../../server/src/protocol/grpc/status.ts";
import { Http2Fault } from "../../server/src/protocol/http2/codes.ts";

export interface LimitRow {
  /** Name of the constant. */
  readonly name: string;
  /** Its value, written out again: a changed constant fails here. */
  readonly value: number;
  /** Runs the decoder that enforces it with so much; throws what the decoder throws, or returns how much was kept. */
  readonly run: (count: number) => unknown;
  /** Status of the refusal; "left out" for what is cut and not refused. */
  readonly status: string;
  /**
   * Numbers that the text names: the limit and what came, the limit alone, or the words of Triton or of a format that
   * has no text.
   */
  readonly says: "both" | "limit" | RegExp;
  /** Distance to what is one past the limit, 1 by default. */
  readonly step?: number;
}

/** A refusal without an error class of the server: an HTTP status line, the code of a reset stream. */
export class Refused extends Error {
  readonly status: string;

  constructor(status: string, text = "") {
    super(text);
    this.status = status;
  }
}

export interface Refusal {
  readonly status: string;
  readonly text: string;
}

export function refusalOf(error: unknown): Refusal {
  const text = error instanceof Error ? error.message : String(error);
  if (error instanceof Refused) return { status: error.status, text };
  if (error instanceof ServerError) return { status: error.code, text };
  if (error instanceof ApiError) return { status: String(error.status), text };
  if (error instanceof GrpcError) return { status: `gRPC ${error.status}`, text };
  if (error instanceof Http2Fault) return { status: `HTTP/2 ${error.code}`, text };
  if (error instanceof ProtoError) return { status: `gRPC ${GrpcError.from(error).status}`, text };
  return { status: error instanceof Error ? error.name : "", text };
}
