/** A byte stream read in pieces of requested lengths, for the tar reader (source: POSIX pax, 512-byte blocks). */

export class ByteSource {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #rest: Uint8Array = new Uint8Array(0);
  /** Bytes consumed so far. */
  position = 0;

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** Exactly this many bytes, or undefined at the end; throws when fewer are left. */
  async take(bytes: number): Promise<Uint8Array | undefined> {
    const parts: Uint8Array[] = [];
    let missing = bytes;
    while (missing > 0) {
      const part = await this.some(missing);
      if (part === undefined) break;
      parts.push(part);
      missing -= part.length;
    }
    if (missing === bytes && bytes > 0) return undefined;
    if (missing > 0)
      throw new RangeError(`the archive ends after ${this.position} bytes, in the middle of an entry: it was cut off`);
    return parts.length === 1 ? parts[0] : Buffer.concat(parts);
  }

  /** The next available bytes, at most this many; undefined at the end. */
  async some(maxBytes: number): Promise<Uint8Array | undefined> {
    while (this.#rest.length === 0) {
      const next = await this.#chunks.next();
      if (next.done === true) return undefined;
      this.#rest = next.value;
    }
    const part = this.#rest.subarray(0, maxBytes);
    this.#rest = this.#rest.subarray(part.length);
    this.position += part.length;
    return part;
  }
}
