/**
 * HPACK encoder (RFC 7541, 6). Recurring fields enter the peer's dynamic table once and nothing else does, so entries
 * are never evicted and indices are simple arithmetic. Strings are not Huffman-coded: they are short, or sent once.
 */
import { staticField, staticName } from "./static-table.ts";

const DEFAULT_TABLE_BYTES = 4096;
/** Fields of these names have few values and deserve a table entry. */
const REPEATED: ReadonlySet<string> = new Set(["content-type", "grpc-accept-encoding", "grpc-encoding"]);
const REPEATED_STATUS = "0";
/** Far less than the table holds. */
const MAX_ENTRIES = 12;
const MAX_ENTRY_CHARS = 200;
const FIRST_OWN_INDEX = 62;

export class HeaderEncoder {
  /** Field -> how many came before it. */
  readonly #own = new Map<string, number>();
  readonly #cache = new Map<readonly string[], { readonly numOwn: number; readonly block: Buffer }>();
  #isIndexing = true;
  /** The peer's table has shrunk: the next block must say that this side knows. */
  #mustEmptyTable = false;

  /** The peer's setting. Small tables are not used at all. */
  limitTable(bytes: number): void {
    if (bytes >= DEFAULT_TABLE_BYTES || !this.#isIndexing) return;
    this.#isIndexing = false;
    this.#mustEmptyTable = true;
    this.#own.clear();
    this.#cache.clear();
  }

  /** Names in lower case and values, in turn. A constant list is encoded once. */
  encode(fields: readonly string[], isConstant: boolean): Buffer {
    const known = isConstant ? this.#cache.get(fields) : undefined;
    if (known !== undefined && known.numOwn === this.#own.size) return known.block;
    const before = this.#own.size;
    const bytes: number[] = [];
    if (this.#mustEmptyTable) bytes.push(0x20);
    this.#mustEmptyTable = false;
    for (let at = 0; at < fields.length; at += 2) this.#field(bytes, fields[at] ?? "", fields[at + 1] ?? "");
    const block = Buffer.from(bytes);
    // A block that adds to the table may be sent once only.
    if (isConstant && this.#own.size === before && block[0] !== 0x20)
      this.#cache.set(fields, { numOwn: before, block });
    return block;
  }

  #field(bytes: number[], name: string, value: string): void {
    const fixed = staticField(name, value);
    if (fixed > 0) {
      writeInteger(bytes, 0x80, 7, fixed);
      return;
    }
    const isRepeated = REPEATED.has(name) || (name === "grpc-status" && value === REPEATED_STATUS);
    const key = `${name}\0${value}`;
    const place = isRepeated ? this.#own.get(key) : undefined;
    if (place !== undefined) {
      writeInteger(bytes, 0x80, 7, FIRST_OWN_INDEX + this.#own.size - 1 - place);
      return;
    }
    const isKept = isRepeated && this.#isIndexing && this.#own.size < MAX_ENTRIES && key.length <= MAX_ENTRY_CHARS;
    if (isKept) this.#own.set(key, this.#own.size);
    const index = staticName(name);
    if (isKept) writeInteger(bytes, 0x40, 6, index);
    else writeInteger(bytes, 0, 4, index);
    if (index === 0) writeString(bytes, name);
    writeString(bytes, value);
  }
}

function writeInteger(bytes: number[], first: number, prefix: number, value: number): void {
  const mask = (1 << prefix) - 1;
  if (value < mask) {
    bytes.push(first | value);
    return;
  }
  bytes.push(first | mask);
  let rest = value - mask;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  bytes.push(rest);
}

function writeString(bytes: number[], text: string): void {
  writeInteger(bytes, 0, 7, text.length);
  for (let i = 0; i < text.length; i++) bytes.push(text.charCodeAt(i) & 255);
}
