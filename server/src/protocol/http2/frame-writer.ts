/**
 * Collects the frames of one turn of the event loop and writes them together (RFC 9113, 4.1). Small frames are copied
 * into one buffer, large payloads are passed on. Knows no stream.
 */
import type { Socket } from "node:net";
import { FRAME_HEADER_BYTES } from "./codes.ts";

const BATCH_BYTES = 65_536;
/** Larger payloads are not copied. */
const MAX_COPIED_BYTES = 8192;
const MAX_POOLED = 16;

/** Buffers whose bytes the system has taken. */
const pool: Buffer[] = [];
const waiting = new Set<FrameWriter>();

function flushAll(): void {
  const writers = [...waiting];
  waiting.clear();
  for (const writer of writers) writer.flush();
}

export class FrameWriter {
  readonly #socket: Socket;
  #batch: Buffer | undefined;
  #used = 0;
  /** Chunks before the batch: full batches and large payloads. */
  #queue: Uint8Array[] = [];
  #queuedBytes = 0;
  /** To be called when what was handed over is needed no more: copied, or taken by the system. */
  #onWritten: (() => void)[] = [];

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Bytes that the system has not taken. */
  get unsentBytes(): number {
    return this.#socket.writableLength + this.#queuedBytes + this.#used;
  }

  /** A frame whose payload has one piece. */
  frame(type: number, flags: number, streamId: number, payload: Uint8Array): void {
    this.#header(payload.length, type, flags, streamId);
    if (payload.length > 0) this.#append(payload);
  }

  /** The header of a frame whose payload comes in pieces. */
  begin(length: number, type: number, flags: number, streamId: number): void {
    this.#header(length, type, flags, streamId);
  }

  piece(bytes: Uint8Array): void {
    this.#append(bytes);
  }

  /** Calls back when all that was handed over so far is copied or taken by the system; never, when the connection breaks. */
  whenWritten(callback: () => void): void {
    this.#onWritten.push(callback);
  }

  #header(length: number, type: number, flags: number, streamId: number): void {
    const batch = this.#room(FRAME_HEADER_BYTES);
    let at = this.#used;
    batch[at++] = length >>> 16;
    batch[at++] = length >>> 8;
    batch[at++] = length;
    batch[at++] = type;
    batch[at++] = flags;
    batch[at++] = streamId >>> 24;
    batch[at++] = streamId >>> 16;
    batch[at++] = streamId >>> 8;
    batch[at++] = streamId;
    this.#used = at;
  }

  #append(bytes: Uint8Array): void {
    if (bytes.length > MAX_COPIED_BYTES) {
      this.#close();
      this.#queue.push(bytes);
      this.#queuedBytes += bytes.length;
      return;
    }
    const batch = this.#room(bytes.length);
    batch.set(bytes, this.#used);
    this.#used += bytes.length;
  }

  /** A batch with that much room; the connection will be written to. */
  #room(numBytes: number): Buffer {
    if (this.#batch !== undefined && this.#used + numBytes > this.#batch.length) this.#close();
    if (this.#batch === undefined) {
      if (waiting.size === 0) setImmediate(flushAll);
      waiting.add(this);
      this.#batch = pool.pop() ?? Buffer.allocUnsafeSlow(BATCH_BYTES);
    }
    return this.#batch;
  }

  /** Puts what the batch holds into the queue; the rest of its room serves what comes behind. */
  #close(): void {
    const batch = this.#batch;
    if (batch === undefined || this.#used === 0) return;
    this.#queue.push(batch.subarray(0, this.#used));
    this.#queuedBytes += this.#used;
    const rest = batch.subarray(this.#used);
    this.#batch = rest.length >= MAX_COPIED_BYTES ? rest : undefined;
    this.#used = 0;
  }

  /** Writes all at once. */
  flush(): void {
    waiting.delete(this);
    const socket = this.#socket;
    const [batch, used, queue] = [this.#batch, this.#used, this.#queue];
    this.#batch = undefined;
    this.#used = 0;
    if (socket.destroyed || !socket.writable) {
      this.#queue = [];
      this.#queuedBytes = 0;
      return;
    }
    if (queue.length === 0) {
      if (batch !== undefined && used > 0) this.#writeBatch(batch, used);
      this.#tell(); // all of it was copied
      return;
    }
    this.#queue = [];
    this.#queuedBytes = 0;
    socket.cork();
    for (const bytes of queue) socket.write(bytes);
    if (batch !== undefined && used > 0) socket.write(batch.subarray(0, used));
    this.#tellWhenTaken();
    socket.uncork();
  }

  #writeBatch(batch: Buffer, used: number): void {
    this.#socket.write(batch.subarray(0, used));
    const isTaken = this.#socket.writableLength === 0;
    if (isTaken && batch.length === BATCH_BYTES && pool.length < MAX_POOLED) pool.push(batch);
  }

  #tell(): void {
    const callbacks = this.#onWritten;
    if (callbacks.length === 0) return;
    this.#onWritten = [];
    for (const callback of callbacks) callback();
  }

  #tellWhenTaken(): void {
    const callbacks = this.#onWritten;
    if (callbacks.length === 0) return;
    this.#onWritten = [];
    this.#socket.write("", (error) => {
      if (!error) for (const callback of callbacks) callback();
    });
  }
}
