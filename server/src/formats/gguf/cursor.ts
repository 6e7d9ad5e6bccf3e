/**
 * Reads numbers, strings and counts from the first bytes of a GGUF file. Source: ggml/docs/gguf.md, "File Structure".
 * Each length is checked against the file size before anything is allocated. It knows no key and no tensor.
 */

/** The available bytes end before the header does, although the file goes on. Read more of it and start again. */
export class PrefixTooShort extends Error {
  /** Minimum number of bytes needed, counted from the start of the file. */
  readonly neededBytes: number;

  constructor(neededBytes: number) {
    super(`expected at least ${neededBytes} bytes of the header`);
    this.neededBytes = neededBytes;
  }
}

/** Larger than any published chat template. */
export const MAX_GGUF_STRING_BYTES: number = 16 << 20;

export class GgufCursor {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #fileBytes: number;
  readonly #file: string;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  #offset = 0;

  /** `bytes` is a prefix of a file of `fileBytes` bytes. */
  constructor(bytes: Uint8Array, fileBytes: number, file: string) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#fileBytes = fileBytes;
    this.#file = file;
  }

  get offset(): number {
    return this.#offset;
  }

  u8(): number {
    return this.#view.getUint8(this.#advance(1));
  }

  i8(): number {
    return this.#view.getInt8(this.#advance(1));
  }

  u16(): number {
    return this.#view.getUint16(this.#advance(2), true);
  }

  i16(): number {
    return this.#view.getInt16(this.#advance(2), true);
  }

  u32(): number {
    return this.#view.getUint32(this.#advance(4), true);
  }

  i32(): number {
    return this.#view.getInt32(this.#advance(4), true);
  }

  f32(): number {
    return this.#view.getFloat32(this.#advance(4), true);
  }

  f64(): number {
    return this.#view.getFloat64(this.#advance(8), true);
  }

  u64(): bigint {
    return this.#view.getBigUint64(this.#advance(8), true);
  }

  i64(): bigint {
    return this.#view.getBigInt64(this.#advance(8), true);
  }

  /** A count of items of at least `minBytes` each: no more than the rest of the file can hold. */
  count(what: string, minBytes: number, max: number): number {
    const count = this.u64();
    const room = BigInt(this.#fileBytes - this.#offset);
    if (count > BigInt(max)) throw this.refusal(what, `at most ${max}`, count);
    if (count * BigInt(minBytes) > room) throw this.refusal(what, `what ${room} bytes can hold`, count);
    return Number(count);
  }

  string(what: string): string {
    const length = this.count(`length of ${what}`, 1, MAX_GGUF_STRING_BYTES);
    const start = this.#advance(length);
    try {
      return this.#decoder.decode(this.#bytes.subarray(start, start + length));
    } catch (cause) {
      throw new Error(`${this.#file}: ${what}: expected UTF-8`, { cause });
    }
  }

  refusal(what: string, expected: string, got: unknown): Error {
    return new Error(`${this.#file}: ${what}: expected ${expected}, got ${String(got).slice(0, 80)}`);
  }

  #advance(length: number): number {
    const start = this.#offset;
    const end = start + length;
    if (end > this.#fileBytes) {
      throw new Error(`${this.#file}: cut off: expected ${end} bytes of header, got a file of ${this.#fileBytes}`);
    }
    if (end > this.#bytes.byteLength) throw new PrefixTooShort(end);
    this.#offset = end;
    return start;
  }
}
