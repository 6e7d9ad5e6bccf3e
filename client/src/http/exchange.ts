/**
 * How HTTP requests reach a server: fetch everywhere, connections of our own in Node. Knows no protocol on top.
 * Source: RFC 9110.
 */

export interface ExchangeRequest {
  readonly method: "GET" | "POST";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Body in parts, which stay as they are until the response. Empty: no body. */
  readonly pieces: readonly Uint8Array[];
  readonly signal: AbortSignal | undefined;
}

export interface ExchangeResponse {
  readonly status: number;
  readonly statusText: string;
  header(name: string): string | null;
  /**
   * The decoded body; undefined when it has more than `maxBytes`. The rest is then cancelled. When parts
   * are joined, byte `alignedAt` lies at a multiple of 8, so that a typed array can be a view of what follows.
   */
  bytes(maxBytes: number, alignedAt?: number): Promise<Uint8Array | undefined>;
  /** The decoded body as it comes. Leaving the iteration cancels the rest. */
  chunks(): AsyncIterable<Uint8Array>;
  /** Gives up the body. */
  cancel(): Promise<void>;
}

/** Rejects when there is no response. */
export type Exchange = (request: ExchangeRequest) => Promise<ExchangeResponse>;

const ALIGNMENT = 8;

/** Parts as one array; a single part is not copied. Byte `alignedAt` of joined parts lies at a multiple of 8. */
export function joinPieces(pieces: readonly Uint8Array[], alignedAt = 0): Uint8Array {
  const [first] = pieces;
  if (first !== undefined && pieces.length === 1) return first;
  const padding = (ALIGNMENT - (alignedAt % ALIGNMENT)) % ALIGNMENT;
  const all = new Uint8Array(sizeOf(pieces) + padding).subarray(padding);
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

export function sizeOf(pieces: readonly Uint8Array[]): number {
  return pieces.reduce((sum, { length }) => sum + length, 0);
}
