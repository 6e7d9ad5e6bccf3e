/**
 * Sends the pieces of a streamed answer: one write for each turn of the event loop, framed as chunks here (RFC 9112,
 * 7.1), since Node would write three pieces for each.
 */
import type { ServerResponse } from "node:http";

/** Pieces that one turn may add before the loop gets its turn: a fast model must not keep all others waiting. */
const MAX_BURST = 16;
const BATCH_BYTES = 16_384;
/** Digits of a length, two line ends. */
const FRAME_BYTES = 12;
const LAST_CHUNK: Buffer = Buffer.from("0\r\n\r\n");

const HEX_DIGIT_BITS = 4;
const MAX_HEX_DIGITS = 8;

/** One buffer serves all writers in turn: most writes are taken by the system at once. */
let scratch: Buffer = Buffer.allocUnsafeSlow(BATCH_BYTES);
const waiting = new Set<ChunkWriter>();

function flushAll(): void {
  const writers = [...waiting];
  waiting.clear();
  for (const writer of writers) writer.flush();
}

export class ChunkWriter {
  readonly #response: ServerResponse;
  /** HTTP/1.0 knows no chunks: its answers end with their connection. */
  readonly #isChunked: boolean;
  #pieces: Uint8Array[] = [];
  /** Bytes of the pieces, with their frames. */
  #numBytes = 0;
  #onFlush: (() => void) | undefined;

  /** The head of the answer must have been given. */
  constructor(response: ServerResponse) {
    this.#response = response;
    this.#isChunked = response.chunkedEncoding;
    response.chunkedEncoding = false;
  }

  /**
   * A promise when the caller has to wait before it goes on: for the client, or for the others. The bytes must stay as they
   * are until they are written.
   */
  write(piece: Uint8Array): Promise<void> | undefined {
    if (piece.length === 0) return undefined;
    if (this.#numBytes + piece.length + FRAME_BYTES > BATCH_BYTES) this.flush();
    if (waiting.size === 0) setImmediate(flushAll);
    waiting.add(this);
    this.#pieces.push(piece);
    this.#numBytes += piece.length + FRAME_BYTES;
    if (this.#pieces.length < MAX_BURST && !this.#response.writableNeedDrain) return undefined;
    return new Promise((resolve) => {
      this.#onFlush = resolve;
    });
  }

  end(): void {
    this.flush();
    this.#response.end(this.#isChunked ? LAST_CHUNK : undefined);
  }

  /** Writes the pending pieces. A waiting producer continues when the client has taken them, or is gone. */
  flush(): void {
    waiting.delete(this);
    const response = this.#response;
    if (this.#pieces.length > 0 && !response.destroyed) this.#writePieces();
    this.#pieces.length = 0;
    this.#numBytes = 0;
    const resolve = this.#onFlush;
    this.#onFlush = undefined;
    if (resolve === undefined) return;
    if (response.writableNeedDrain && !response.destroyed) whenDrained(response, resolve);
    else resolve();
  }

  #writePieces(): void {
    const response = this.#response;
    const isFree = response.writableLength === 0 && this.#numBytes <= scratch.length;
    const batch = isFree ? scratch : Buffer.allocUnsafeSlow(this.#numBytes);
    let at = 0;
    for (const piece of this.#pieces) {
      if (this.#isChunked) at = writeLength(batch, at, piece.length);
      batch.set(piece, at);
      at += piece.length;
      if (this.#isChunked) at = writeLineEnd(batch, at);
    }
    // Node would cork the socket until the next tick, and the batch could not serve the next writer.
    const { socket } = response;
    socket?.cork();
    response.write(batch.subarray(0, at));
    socket?.uncork();
    if (batch === scratch && response.writableLength > 0) scratch = Buffer.allocUnsafeSlow(BATCH_BYTES);
  }
}

/** In hexadecimal digits, with a line end. @returns the offset behind it */
function writeLength(batch: Buffer, at: number, length: number): number {
  let digits = 1;
  while (digits < MAX_HEX_DIGITS && length >>> (HEX_DIGIT_BITS * digits) > 0) digits++;
  for (let i = 0; i < digits; i++) {
    const digit = (length >>> (HEX_DIGIT_BITS * (digits - 1 - i))) & 15;
    batch[at + i] = digit < 10 ? 0x30 + digit : 0x57 + digit;
  }
  return writeLineEnd(batch, at + digits);
}

function writeLineEnd(batch: Buffer, at: number): number {
  batch[at] = 13;
  batch[at + 1] = 10;
  return at + 2;
}

function whenDrained(response: ServerResponse, resolve: () => void): void {
  const done = (): void => {
    response.off("drain", done);
    response.off("close", done);
    resolve();
  };
  response.on("drain", done);
  response.on("close", done);
}
