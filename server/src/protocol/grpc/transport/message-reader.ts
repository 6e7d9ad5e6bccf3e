/**
 * Cuts the bytes of a call into length-prefixed messages (gRPC over HTTP/2, "Length-Prefixed-Message"). A message that
 * arrived in one piece is a view, not a copy.
 */
import { GRPC_STATUS, GrpcError } from "../status.ts";

export const PREFIX_BYTES = 5;

export interface Frame {
  readonly compressed: boolean;
  readonly data: Uint8Array;
}

export class FrameReader {
  readonly #maxMessageBytes: number;
  #chunks: Uint8Array[] = [];
  /** Bytes in `#chunks`. */
  #buffered = 0;
  /** Bytes missing from the current message; -1 = the prefix comes next. */
  #length = -1;
  #compressed = false;

  constructor(maxMessageBytes: number) {
    this.#maxMessageBytes = maxMessageBytes;
  }

  push(chunk: Uint8Array): void {
    if (chunk.length === 0) return;
    this.#chunks.push(chunk);
    this.#buffered += chunk.length;
  }

  /** True when the input may end here. */
  get isAtBoundary(): boolean {
    return this.#length < 0 && this.#buffered === 0;
  }

  /** The next whole message, if it is there. The length is judged before anything of the message is kept. */
  next(): Frame | undefined {
    if (this.#length < 0 && !this.#readPrefix()) return undefined;
    if (this.#buffered < this.#length) return undefined;
    const data = this.#take(this.#length);
    this.#length = -1;
    return { compressed: this.#compressed, data };
  }

  #readPrefix(): boolean {
    if (this.#buffered < PREFIX_BYTES) return false;
    const prefix = this.#take(PREFIX_BYTES);
    const flag = prefix[0] ?? 0;
    if (flag > 1) throw new GrpcError(GRPC_STATUS.internal, `Message has compressed flag ${flag}, expected 0 or 1`);
    const length = new DataView(prefix.buffer, prefix.byteOffset, PREFIX_BYTES).getUint32(1);
    if (length > this.#maxMessageBytes) {
      const text = `Received message larger than max (${length} vs. ${this.#maxMessageBytes})`;
      throw new GrpcError(GRPC_STATUS.resourceExhausted, text);
    }
    this.#compressed = flag === 1;
    this.#length = length;
    return true;
  }

  /** The next `length` bytes, which are there. */
  #take(length: number): Uint8Array {
    this.#buffered -= length;
    const first = this.#chunks[0];
    if (first === undefined || length === 0) return new Uint8Array(0);
    if (first.length > length) {
      this.#chunks[0] = first.subarray(length);
      return first.subarray(0, length);
    }
    if (first.length === length) {
      this.#chunks.shift();
      return first;
    }
    return this.#gather(length);
  }

  #gather(length: number): Uint8Array {
    const out = Buffer.allocUnsafeSlow(length);
    let at = 0;
    let used = 0;
    for (const chunk of this.#chunks) {
      const part = chunk.length > length - at ? chunk.subarray(0, length - at) : chunk;
      out.set(part, at);
      at += part.length;
      if (part.length < chunk.length) this.#chunks[used] = chunk.subarray(part.length);
      else used += 1;
      if (at === length) break;
    }
    this.#chunks.splice(0, used);
    return out;
  }
}
