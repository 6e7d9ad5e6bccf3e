/** The response of a handler, independent of Node's HTTP (RFC 9110, 3.4). */
import { errorBody } from "./status.ts";

export type ContentType =
  | "application/json"
  | "application/octet-stream"
  | "text/plain"
  | "text/plain; charset=utf-8"
  | "text/css; charset=utf-8"
  | "text/html; charset=utf-8"
  | "text/javascript; charset=utf-8"
  | "image/svg+xml"
  | "text/event-stream; charset=utf-8"
  | "application/x-ndjson"
  | `application/vnd.${string}`;

export interface HttpReply {
  readonly status: number;
  /** Undefined for a reply without a body. */
  readonly contentType: ContentType | undefined;
  /** Further headers, names and values in turn. */
  readonly headers: readonly string[];
  /** The body in pieces that are sent one after the other without a copy. */
  readonly body: readonly Uint8Array[];
  /** Called when the body is out: its memory has another owner. */
  readonly release?: (() => void) | undefined;
}

/** A reply that is sent piece by piece, each as soon as it is there. */
export interface HttpStreamReply {
  readonly status: number;
  readonly contentType: ContentType;
  /** Further headers, names and values in turn. */
  readonly headers?: readonly string[];
  readonly chunks: AsyncIterable<Uint8Array> | PouredChunks;
}

/** Pieces that can also come without being asked for, which costs no promise a piece. */
export interface PouredChunks extends AsyncIterable<Uint8Array> {
  /** A promise of `write`: the next piece waits for it. Settles behind the last. @throws what `write` throws */
  pour(write: (piece: Uint8Array) => Promise<void> | undefined): Promise<void>;
}

const NO_HEADERS: readonly string[] = [];
const NO_BODY: readonly Uint8Array[] = [];

export function jsonReply(value: unknown): HttpReply {
  return {
    status: 200,
    contentType: "application/json",
    headers: NO_HEADERS,
    body: [Buffer.from(JSON.stringify(value))],
  };
}

export function bytesReply(
  contentType: ContentType,
  body: readonly Uint8Array[],
  headers: readonly string[] = NO_HEADERS,
): HttpReply {
  return { status: 200, contentType, headers, body };
}

export function emptyReply(status: number, contentType: ContentType): HttpReply {
  return { status, contentType, headers: NO_HEADERS, body: NO_BODY };
}

export function errorReply(
  status: number,
  contentType: ContentType,
  message: string,
  headers: readonly string[] = NO_HEADERS,
): HttpReply {
  return { status, contentType, headers, body: [errorBody(message)] };
}
