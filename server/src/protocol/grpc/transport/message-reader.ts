/**
 * Cuts the bytes of a call into length-prefixed messages (gRPC over HTTP/2, "Length-Prefixed-Message"). A message that
 * arrived in one piece is a view, not a copy.
 */
import { PieceList } from "../../piece-list.ts";
import { GRPC_STATUS, GrpcError } from "../status.ts";

export const PREFIX_BYTES = 5;

export interface Frame {
  readonly compressed: boolean;
  readonly data: Uint8Array;
}

export class FrameReader {
  readonly #maxMessageBytes: number;
  readonly #pieces = new PieceList();
  /** Bytes missing from the current message; -1 = the prefix comes next. */
  #length = -1;
  #compressed = false;

  constructor(maxMessageBytes: number) {
    this.#maxMessageBytes = maxMessageBytes;
  }

  push(chunk: Uint8Array): void {
    this.#pieces.push(chunk);
  }

  /** True when the input may end here. */
  get isAtBoundary(): boolean {
    return this.#length < 0 && this.#pieces.numBytes === 0;
  }

  /** The next whole message, if it is there. The length is judged before anything of the message is kept. */
  next(): Frame | undefined {
    if (this.#length < 0 && !this.#readPrefix()) return undefined;
    if (this.#pieces.numBytes < this.#length) return undefined;
    const data = this.#pieces.take(this.#length);
    this.#length = -1;
    return { compressed: this.#compressed, data };
  }

  #readPrefix(): boolean {
    if (this.#pieces.numBytes < PREFIX_BYTES) return false;
    const prefix = this.#pieces.take(PREFIX_BYTES);
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
}
