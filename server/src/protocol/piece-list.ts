/**
 * Received pieces of one message, in order. A piece is a view of what was read from a socket: an object of a hundred bytes that
 * keeps 64 KiB alive, whatever its own size. Small pieces are therefore copied behind each other, so that what is kept costs
 * memory in proportion to its bytes (CVE-2025-23310 and its siblings). Source: own design.
 */

/** Larger pieces are kept as views. */
const SMALL_BYTES = 1024;
/** Blocks for small pieces double from the first to the second size. */
const MIN_BLOCK_BYTES = 1024;
const MAX_BLOCK_BYTES: number = 64 * 1024;

export class PieceList {
  #pieces: Uint8Array[] = [];
  /** Has room behind the last piece, which lies in it. */
  #block: Uint8Array | undefined;
  #used = 0;
  /** The last piece begins here in its block. */
  #start = 0;
  /** Bytes of all pieces. */
  numBytes = 0;

  get pieces(): readonly Uint8Array[] {
    return this.#pieces;
  }

  push(piece: Uint8Array): void {
    if (piece.length === 0) return;
    this.numBytes += piece.length;
    // Most messages come in one piece, which stays a view.
    if (this.#pieces.length === 0 || piece.length >= SMALL_BYTES) {
      this.#pieces.push(piece);
      this.#block = undefined;
    } else {
      this.#copy(piece);
    }
  }

  #copy(piece: Uint8Array): void {
    if (this.#block !== undefined && this.#used + piece.length <= this.#block.length) {
      this.#pieces.pop();
    } else {
      const size = Math.min(2 * (this.#block?.length ?? MIN_BLOCK_BYTES / 2), MAX_BLOCK_BYTES);
      this.#block = Buffer.allocUnsafeSlow(Math.max(size, piece.length));
      this.#start = 0;
      this.#used = 0;
    }
    this.#block.set(piece, this.#used);
    this.#used += piece.length;
    this.#pieces.push(this.#block.subarray(this.#start, this.#used));
  }

  /** Removes the first bytes, as a view where they lie in one piece. They must be there. */
  take(length: number): Uint8Array {
    const first = this.#pieces[0];
    this.numBytes -= length;
    if (first === undefined || length === 0) return new Uint8Array(0);
    if (first.length > length) {
      this.#shorten(first, length);
      return first.subarray(0, length);
    }
    if (first.length === length) {
      this.#pieces.shift();
      if (this.#pieces.length === 0) this.#block = undefined;
      return first;
    }
    return this.#gather(length);
  }

  /** Removes the first piece. There must be one. */
  takeFirst(): Buffer {
    const piece = this.take(this.#pieces[0]?.length ?? 0);
    return Buffer.from(piece.buffer, piece.byteOffset, piece.length);
  }

  /** Takes the beginning away from the first piece. */
  #shorten(first: Uint8Array, length: number): void {
    this.#pieces[0] = first.subarray(length);
    if (this.#pieces.length === 1 && this.#block !== undefined) this.#start += length;
  }

  #gather(length: number): Uint8Array {
    const out = Buffer.allocUnsafeSlow(length);
    let at = 0;
    let numTaken = 0;
    while (at < length) {
      const piece = this.#pieces[numTaken] as Uint8Array; // numBytes counts them
      if (piece.length > length - at) break;
      out.set(piece, at);
      at += piece.length;
      numTaken += 1;
    }
    this.#pieces.splice(0, numTaken);
    const rest = this.#pieces[0];
    if (rest !== undefined && at < length) {
      out.set(rest.subarray(0, length - at), at);
      this.#shorten(rest, length - at);
    }
    if (this.#pieces.length === 0) this.#block = undefined;
    return out;
  }

  clear(): void {
    this.#pieces = [];
    this.#block = undefined;
    this.numBytes = 0;
  }
}
