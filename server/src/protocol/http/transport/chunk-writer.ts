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

/** Free buffers. */
const pool: Buffer[] = [];
const MAX_POOLED = 64;
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
  #batch: Buffer | undefined;
  #used = 0;
  #burst = 0;
  #onFlush: (() => void) | undefined;

  /** The head of the answer must have been given. */
  constructor(response: ServerResponse) {
    this.#response = response;
    this.#isChunked = response.chunkedEncoding;
    response.chunkedEncoding = false;
  }

  /** A promise when the caller has to wait before it goes on: for the client, or for the others. */
  write(piece: Uint8Array): Promise<void> | undefined {
    if (piece.length === 0) return undefined;
    const batch = this.#room(piece.length + FRAME_BYTES);
    if (this.#isChunked) this.#line(batch, piece.length.toString(16));
    batch.set(piece, this.#used);
    this.#used += piece.length;
    if (this.#isChunked) this.#line(batch, "");
    this.#burst += 1;
    if (this.#burst < MAX_BURST && !this.#response.writableNeedDrain) return undefined;
    return new Promise((resolve) => {
      this.#onFlush = resolve;
    });
  }

  end(): void {
    this.flush();
    this.#response.end(this.#isChunked ? LAST_CHUNK : undefined);
  }

  #line(batch: Buffer, text: string): void {
    for (let i = 0; i < text.length; i++) batch[this.#used++] = text.charCodeAt(i);
    batch[this.#used++] = 13;
    batch[this.#used++] = 10;
  }

  #room(numBytes: number): Buffer {
    if (this.#batch !== undefined && this.#used + numBytes > this.#batch.length) this.flush();
    if (this.#batch === undefined) {
      if (waiting.size === 0) setImmediate(flushAll);
      waiting.add(this);
      this.#batch = numBytes > BATCH_BYTES ? Buffer.allocUnsafeSlow(numBytes) : (pool.pop() ?? newBatch());
    }
    return this.#batch;
  }

  /** Writes the pending pieces. A waiting producer continues when the client has taken them, or is gone. */
  flush(): void {
    waiting.delete(this);
    const response = this.#response;
    const batch = this.#batch;
    this.#batch = undefined;
    this.#burst = 0;
    if (batch !== undefined && !response.destroyed) response.write(batch.subarray(0, this.#used));
    this.#used = 0;
    if (batch !== undefined && response.writableLength === 0) recycle(batch);
    const resolve = this.#onFlush;
    this.#onFlush = undefined;
    if (resolve === undefined) return;
    if (response.writableNeedDrain && !response.destroyed) whenDrained(response, resolve);
    else resolve();
  }
}

function newBatch(): Buffer {
  return Buffer.allocUnsafeSlow(BATCH_BYTES);
}

/** The system has its bytes. */
function recycle(batch: Buffer): void {
  if (batch.length === BATCH_BYTES && pool.length < MAX_POOLED) pool.push(batch);
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
