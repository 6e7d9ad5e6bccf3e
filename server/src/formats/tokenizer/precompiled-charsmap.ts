/**
 * SentencePiece's precompiled normalization: the longest prefix of a text that a double-array trie knows becomes another
 * text. Sources: SentencePiece, normalizer.cc and darts.h; Kanda 2018 on XOR-compressed double arrays.
 */

/** Bytes in front of the trie: its size. */
const SIZE_BYTES = 4;
const LEAF = 1 << 8;
/** Set in entries that hold an index instead of a label. */
const VALUE_BIT = 0x8000_0000;

export interface Replacement {
  readonly bytes: Uint8Array;
  /** Bytes of the text that it replaces. */
  readonly length: number;
}

export class PrecompiledCharsmap {
  readonly #entries: Uint32Array;
  readonly #texts: Uint8Array;

  /** Every entry that a text can reach is checked here. @throws Error saying what lies outside */
  constructor(blob: Uint8Array) {
    const view = new DataView(blob.buffer, blob.byteOffset, blob.byteLength);
    const size = blob.byteLength < SIZE_BYTES ? Number.NaN : view.getUint32(0, true);
    if (!(size % 4 === 0 && size > 0 && size + SIZE_BYTES < blob.byteLength)) {
      throw new Error(`expected a trie of whole entries within ${blob.byteLength} bytes, got one of ${size} bytes`);
    }
    this.#entries = Uint32Array.from({ length: size / 4 }, (_, i) => view.getUint32(SIZE_BYTES + 4 * i, true));
    this.#texts = blob.subarray(SIZE_BYTES + size);
    if (this.#texts.at(-1) !== 0) throw new Error("expected replacements that end with a zero byte");
    this.#check();
  }

  /** The replacement of the longest known prefix at a position. */
  longest(bytes: Uint8Array, from: number): Replacement | undefined {
    let node = this.#base(0);
    let found: Replacement | undefined;
    for (let at = from; at < bytes.length; at++) {
      const byte = bytes[at] ?? 0;
      if (byte === 0) break;
      const child = (node ^ byte) >>> 0;
      const entry = this.#entries[child];
      if (entry === undefined || (entry & (VALUE_BIT | 0xff)) >>> 0 !== byte) break;
      node = (child ^ this.#base(child)) >>> 0;
      if ((entry & LEAF) !== 0) found = { bytes: this.#textAt(this.#valueAt(node)), length: at + 1 - from };
    }
    return found;
  }

  #base(index: number): number {
    const entry = this.#entries[index] ?? 0;
    return ((entry >>> 10) << ((entry & (1 << 9)) >>> 6)) >>> 0;
  }

  #valueAt(index: number): number {
    return ((this.#entries[index] ?? 0) & ~VALUE_BIT) >>> 0;
  }

  #textAt(index: number): Uint8Array {
    return this.#texts.subarray(index, this.#texts.indexOf(0, index));
  }

  #check(): void {
    const seen = new Set([this.#base(0)]);
    for (const node of seen) {
      for (let byte = 1; byte < 256; byte++) {
        const child = (node ^ byte) >>> 0;
        const entry = this.#entries[child];
        if (entry === undefined || (entry & (VALUE_BIT | 0xff)) >>> 0 !== byte) continue;
        const next = (child ^ this.#base(child)) >>> 0;
        if ((entry & LEAF) !== 0) this.#checkLeaf(next);
        seen.add(next);
      }
    }
  }

  #checkLeaf(index: number): void {
    const isInside = index < this.#entries.length && this.#valueAt(index) < this.#texts.length;
    if (isInside) return;
    throw new Error(`expected replacements within ${this.#texts.length} bytes, got entry ${index} outside`);
  }
}
