/**
 * HPACK decoder (RFC 7541, 3 and 6): from a field block to names and values, with the dynamic table that the peer
 * fills. Validates no field.
 */
import { HTTP2_ERROR, Http2Fault } from "./codes.ts";
import { decodeHuffman } from "./huffman.ts";
import { MAX_HPACK_INTEGER, MAX_TABLE_BYTES } from "./limits.ts";
import { STATIC_NAMES, STATIC_VALUES } from "./static-table.ts";

const ENTRY_BYTES = 32;

export interface HeaderList {
  /** Names and values in turn. */
  readonly fields: readonly string[];
  /** Names, values and 32 bytes a field; fields beyond the limit are counted, not kept. */
  readonly size: number;
}

export class HeaderDecoder {
  readonly #maxListBytes: number;
  /** Oldest first. */
  #names: string[] = [];
  #values: string[] = [];
  #tableBytes = 0;
  #tableLimit = MAX_TABLE_BYTES;
  #block: Uint8Array = new Uint8Array(0);
  #at = 0;
  /** The field that was read last. */
  #name = "";
  #value = "";
  /** By the block that is read. */
  #hasChanged = false;
  /** The previous block, valid while the table is unchanged: calls of a client repeat it. */
  #lastBlock: Buffer | undefined;
  #last: HeaderList | undefined;

  constructor(maxListBytes: number) {
    this.#maxListBytes = maxListBytes;
  }

  /** @throws Http2Fault: the table is of no use any more */
  decode(block: Buffer): HeaderList {
    if (this.#last !== undefined && this.#lastBlock?.equals(block) === true) return this.#last;
    this.#block = block;
    this.#at = 0;
    this.#last = undefined;
    this.#hasChanged = false;
    while (this.#isResize()) this.#resize(this.#integer(5));
    const fields: string[] = [];
    let size = 0;
    while (this.#at < block.length) {
      this.#field();
      size += this.#name.length + this.#value.length + ENTRY_BYTES;
      if (size <= this.#maxListBytes) fields.push(this.#name, this.#value);
    }
    const list = { fields, size };
    if (!this.#hasChanged) this.#remember(block, list);
    return list;
  }

  /** Changes of the table's size stand before the fields only. */
  #isResize(): boolean {
    return ((this.#block[this.#at] ?? 0) & 0xe0) === 0x20;
  }

  #field(): void {
    const byte = this.#block[this.#at] ?? 0;
    if ((byte & 0x80) !== 0) {
      const index = this.#integer(7);
      this.#name = this.#nameAt(index);
      this.#value = this.#valueAt(index);
      return;
    }
    if (this.#isResize()) throw fault("the table is resized after a field");
    const isKept = (byte & 0x40) !== 0;
    const index = this.#integer(isKept ? 6 : 4);
    this.#name = index === 0 ? this.#string() : this.#nameAt(index);
    this.#value = this.#string();
    if (isKept) this.#add(this.#name, this.#value);
  }

  #remember(block: Buffer, list: HeaderList): void {
    // A copy: the block is a view of what was received.
    this.#lastBlock = Buffer.from(block);
    this.#last = list;
  }

  #nameAt(index: number): string {
    return this.#entry(index, STATIC_NAMES, this.#names);
  }

  #valueAt(index: number): string {
    return this.#entry(index, STATIC_VALUES, this.#values);
  }

  #entry(index: number, fixed: readonly string[], own: readonly string[]): string {
    const found = index < fixed.length ? fixed[index] : own[own.length - 1 - (index - fixed.length)];
    if (found === undefined || index === 0) throw fault(`the table has no field ${index}`);
    return found;
  }

  #add(name: string, value: string): void {
    this.#hasChanged = true;
    this.#tableBytes += name.length + value.length + ENTRY_BYTES;
    this.#names.push(name);
    this.#values.push(value);
    this.#evict();
  }

  #resize(bytes: number): void {
    if (bytes > MAX_TABLE_BYTES) throw fault(`the table may have ${MAX_TABLE_BYTES} bytes, not ${bytes}`);
    this.#hasChanged = true;
    this.#tableLimit = bytes;
    this.#evict();
  }

  #evict(): void {
    let count = 0;
    while (this.#tableBytes > this.#tableLimit) {
      this.#tableBytes -= (this.#names[count]?.length ?? 0) + (this.#values[count]?.length ?? 0) + ENTRY_BYTES;
      count += 1;
    }
    if (count === 0) return;
    this.#names = this.#names.slice(count);
    this.#values = this.#values.slice(count);
  }

  /** A number whose first bits are the last `prefix` ones of the next byte. */
  #integer(prefix: number): number {
    const mask = (1 << prefix) - 1;
    let value = this.#byte() & mask;
    if (value < mask) return value;
    for (let shift = 0; ; shift += 7) {
      const byte = this.#byte();
      value += (byte & 127) * 2 ** shift;
      if (value > MAX_HPACK_INTEGER || shift > 28) {
        throw fault(`a number is ${value} or more, expected at most ${MAX_HPACK_INTEGER}`);
      }
      if (byte < 128) return value;
    }
  }

  #string(): string {
    const isHuffman = ((this.#block[this.#at] ?? 0) & 0x80) !== 0;
    const length = this.#integer(7);
    const from = this.#at;
    const to = from + length;
    if (to > this.#block.length) throw fault("a string is cut off");
    this.#at = to;
    if (isHuffman) return decodeHuffman(this.#block, from, to);
    return Buffer.from(this.#block.buffer, this.#block.byteOffset + from, length).toString("latin1");
  }

  #byte(): number {
    const byte = this.#block[this.#at++];
    if (byte === undefined) throw fault("the block is cut off");
    return byte;
  }
}

function fault(what: string): Http2Fault {
  return new Http2Fault(HTTP2_ERROR.compression, `header block: ${what}`);
}
