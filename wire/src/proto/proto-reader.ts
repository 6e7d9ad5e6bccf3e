/**
 * Reads the fields of a protobuf message (protobuf encoding, https://protobuf.dev/programming-guides/encoding/). Every
 * length is checked against the remaining bytes. Knows no message type.
 */
import { MAX_GROUP_DEPTH } from "../limits.ts";
import type { NameCache } from "./name-cache.ts";
import { tryDecodeUtf8 } from "./utf8.ts";

/** The bytes are not a message of the expected type. */
export class ProtoError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "ProtoError";
  }
}

const TWO_32 = 4_294_967_296;

export class ProtoReader {
  readonly bytes: Uint8Array;
  readonly #names: NameCache | undefined;
  pos: number;
  end: number;
  /** The halves of the last varint. */
  low = 0;
  high = 0;

  /** `names`: interns strings that many messages repeat. */
  constructor(bytes: Uint8Array, names?: NameCache) {
    this.bytes = bytes;
    this.#names = names;
    this.pos = 0;
    this.end = bytes.length;
  }

  /** The next tag (number << 3 | wire type), or 0 at the end of the message. */
  tag(): number {
    if (this.pos >= this.end) return 0;
    const tag = this.uint32();
    if (tag >>> 3 === 0) throw new ProtoError(`field number 0 at byte ${this.pos}`);
    return tag;
  }

  /** Low half of a varint (protobuf encoding, "Base 128 Varints"). */
  uint32(): number {
    const first = this.bytes[this.pos] ?? 0;
    if (first < 0x80 && this.pos < this.end) {
      this.pos += 1;
      this.high = 0;
      this.low = first;
      return first;
    }
    this.#longVarint();
    return this.low >>> 0;
  }

  #longVarint(): void {
    let low = 0;
    let high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.pos >= this.end) throw new ProtoError(`varint cut off at byte ${this.pos}`);
      const byte = this.bytes[this.pos++] ?? 0;
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high = bits >>> 4;
      } else high |= bits << (shift - 32);
      if (byte < 0x80) {
        this.low = low;
        this.high = high;
        return;
      }
    }
    throw new ProtoError(`varint of more than ten bytes at byte ${this.pos}`);
  }

  /** A number when safe, else a bigint. */
  int64(): number | bigint {
    this.uint32();
    const value = (this.high | 0) * TWO_32 + (this.low >>> 0);
    if (Number.isSafeInteger(value)) return value;
    return (BigInt(this.high | 0) << 32n) | BigInt(this.low >>> 0);
  }

  /** A number when safe, else a bigint. */
  uint64(): number | bigint {
    this.uint32();
    const value = (this.high >>> 0) * TWO_32 + (this.low >>> 0);
    if (Number.isSafeInteger(value)) return value;
    return (BigInt(this.high >>> 0) << 32n) | BigInt(this.low >>> 0);
  }

  bool(): boolean {
    this.uint32();
    return (this.low | this.high) !== 0;
  }

  double(): number {
    const at = this.#take(8);
    return new DataView(this.bytes.buffer, this.bytes.byteOffset + at, 8).getFloat64(0, true);
  }

  /** One value of `width` bytes, or with `packed` a run of whole ones, as a view. */
  fixed(width: 4 | 8, packed: boolean): Uint8Array {
    const length = packed ? this.#length() : width;
    if (length % width !== 0) throw new ProtoError(`packed run of ${length} bytes is no multiple of ${width}`);
    const start = this.#take(length);
    return this.bytes.subarray(start, start + length);
  }

  string(): string {
    const length = this.#length();
    const start = this.#take(length);
    const { bytes } = this;
    const end = start + length;
    const text = this.#names === undefined ? tryDecodeUtf8(bytes, start, end) : this.#names.read(bytes, start, end);
    if (text === undefined) throw new ProtoError(`string at byte ${start} is not UTF-8`);
    return text;
  }

  /** A view, no copy. */
  view(): Uint8Array {
    const length = this.#length();
    const start = this.#take(length);
    return this.bytes.subarray(start, start + length);
  }

  /** Enters a nested message: until `leave(outer)` the end is the nested one's. */
  enter(): number {
    const length = this.#length();
    if (length > this.end - this.pos) throw new ProtoError(`${length} bytes wanted at byte ${this.pos}`);
    const outer = this.end;
    this.end = this.pos + length;
    return outer;
  }

  leave(outer: number): void {
    this.pos = this.end;
    this.end = outer;
  }

  /** Skips an unknown field, or a known one with another wire type. */
  skip(tag: number): void {
    let depth = 0;
    let current = tag;
    for (;;) {
      depth += this.#skipOne(current & 7);
      if (depth < 0) throw new ProtoError(`groups do not nest at byte ${this.pos}`);
      if (depth > MAX_GROUP_DEPTH) throw new ProtoError(`${depth} nested groups, expected at most ${MAX_GROUP_DEPTH}`);
      if (depth === 0) return;
      current = this.tag();
      if (current === 0) throw new ProtoError("group without end");
    }
  }

  /** @returns the change of the group depth */
  #skipOne(wireType: number): number {
    if (wireType === 0) this.uint32();
    else if (wireType === 1) this.#take(8);
    else if (wireType === 2) this.#take(this.#length());
    else if (wireType === 5) this.#take(4);
    else if (wireType === 3) return 1;
    else if (wireType === 4) return -1;
    else throw new ProtoError(`wire type ${wireType} at byte ${this.pos}`);
    return 0;
  }

  #length(): number {
    const length = this.uint32();
    if (this.high !== 0) throw new ProtoError(`length past 32 bits at byte ${this.pos}`);
    return length;
  }

  #take(length: number): number {
    const start = this.pos;
    if (length > this.end - start) throw new ProtoError(`${length} bytes wanted at byte ${start}`);
    this.pos = start + length;
    return start;
  }
}
