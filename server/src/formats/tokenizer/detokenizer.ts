/**
 * Token ids to text in chunks of any size; the chunks add up to the full text. Incomplete UTF-8 sequences wait for the
 * next chunk. Source: tokenizers library, `decoder`, and RFC 3629. Knows no request.
 */
import type { Pieces } from "./detokenizer-pieces.ts";

export interface Detokenizer {
  /** Text that these ids complete, possibly "". */
  push(ids: ArrayLike<number>): string;
  /** The remaining text: an incomplete character becomes U+FFFD. The object is then ready for a new text. */
  finish(): string;
}

const NO_IDS: ReadonlySet<number> = new Set();

/** For decoders that work token by token. */
export class IncrementalDetokenizer implements Detokenizer {
  readonly #pieces: Pieces;
  readonly #skipped: ReadonlySet<number>;
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  #isFirst = true;
  /** How many more leading characters may be stripped. */
  #leadingLeft: number;

  constructor(pieces: Pieces, skippedIds: ReadonlySet<number> = NO_IDS) {
    this.#pieces = pieces;
    this.#skipped = skippedIds;
    this.#leadingLeft = pieces.leading.count;
  }

  push(ids: ArrayLike<number>): string {
    const parts: Uint8Array[] = [];
    for (let i = 0; i < ids.length; i++) {
      const id = ids[i] ?? -1;
      if (this.#skipped.has(id)) continue;
      const bytes = this.#pieces.bytesOf(id, this.#isFirst);
      if (bytes === undefined) continue;
      this.#isFirst = false;
      parts.push(bytes);
    }
    const [only] = parts;
    if (only === undefined) return "";
    return this.#strip(this.#decoder.decode(parts.length === 1 ? only : Buffer.concat(parts), { stream: true }));
  }

  finish(): string {
    const rest = this.#strip(this.#decoder.decode());
    this.#isFirst = true;
    this.#leadingLeft = this.#pieces.leading.count;
    return rest;
  }

  #strip(text: string): string {
    const { char } = this.#pieces.leading;
    let start = 0;
    while (this.#leadingLeft > 0 && start < text.length) {
      if (text.charAt(start) !== char) {
        this.#leadingLeft = 0;
        break;
      }
      start++;
      this.#leadingLeft--;
    }
    return start === 0 ? text : text.slice(start);
  }
}

/** For decoders that look across tokens: all text waits for the end. */
export class WholeDetokenizer implements Detokenizer {
  readonly #decode: (ids: number[]) => string;
  readonly #skipped: ReadonlySet<number>;
  #ids: number[] = [];

  constructor(decode: (ids: number[]) => string, skippedIds: ReadonlySet<number> = NO_IDS) {
    this.#decode = decode;
    this.#skipped = skippedIds;
  }

  push(ids: ArrayLike<number>): string {
    for (let i = 0; i < ids.length; i++) {
      const id = ids[i] ?? -1;
      if (!this.#skipped.has(id)) this.#ids.push(id);
    }
    return "";
  }

  finish(): string {
    const ids = this.#ids;
    this.#ids = [];
    return ids.length === 0 ? "" : this.#decode(ids);
  }
}
