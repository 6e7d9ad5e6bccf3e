/**
 * Writes a protobuf message (protobuf encoding, https://protobuf.dev/programming-guides/encoding/) as a list of pieces
 * for a gathering write: small fields lie in one buffer, large payloads are referenced. Reusable: `finish` returns the
 * message and starts the next one. Knows no message type.
 */
import { utf8Length, writeUtf8 } from "./utf8.ts";

/** Payloads up to this are cheaper to copy than to send as a piece of their own. */
const INLINE_BYTES = 4096;
/** Room in front of the body, for the tag and length of a wrapping field and the prefix of the transport. */
const HEADROOM = 32;
const FIRST_CAPACITY = 8192;
/** A larger buffer is replaced by one of the first size with the next message. */
const KEPT_CAPACITY = 1 << 20;
const TWO_32 = 4_294_967_296;

/** Source of buffers; Node's pool is ten times faster than `new Uint8Array` at these sizes. */
export type Allocate = (size: number) => Uint8Array;

export class GatherWriter {
  readonly #allocate: Allocate;
  #scratch: Uint8Array = new Uint8Array(FIRST_CAPACITY);
  #start = HEADROOM;
  #at = HEADROOM;
  /** Payload k is inserted at scratch index cuts[k]. */
  #cuts: number[] = [];
  #payloads: Uint8Array[] = [];
  #payloadBytes = 0;

  constructor(allocate: Allocate = (size) => new Uint8Array(size)) {
    this.#allocate = allocate;
  }

  /** Bytes of the message so far. */
  get size(): number {
    return this.#at - this.#start + this.#payloadBytes;
  }

  varint(value: number): void {
    this.#reserve(10);
    this.#at = writeVarint(this.#scratch, this.#at, value);
  }

  /** Two's complement, ten bytes when negative. */
  int64(value: number | bigint): void {
    this.#reserve(10);
    const whole = typeof value === "bigint" ? BigInt.asUintN(64, value) : value;
    if (typeof whole === "number" && whole >= 0) {
      this.#at = writeVarint(this.#scratch, this.#at, whole);
      return;
    }
    let rest = BigInt.asUintN(64, BigInt(whole));
    while (rest > 127n) {
      this.#scratch[this.#at++] = Number(rest & 127n) | 128;
      rest >>= 7n;
    }
    this.#scratch[this.#at++] = Number(rest);
  }

  double(value: number): void {
    this.#reserve(8);
    new DataView(this.#scratch.buffer, this.#at, 8).setFloat64(0, value, true);
    this.#at += 8;
  }

  /** A fixed64. */
  fixed64(value: bigint): void {
    this.#reserve(8);
    new DataView(this.#scratch.buffer, this.#at, 8).setBigUint64(0, value, true);
    this.#at += 8;
  }

  /** A string field, left out when empty, as proto3 does. */
  stringField(tag: number, text: string): void {
    if (text.length > 0) this.string(tag, text);
  }

  string(tag: number, text: string): void {
    const length = text.length < INLINE_BYTES ? text.length * 3 : utf8Length(text);
    this.#reserve(length + 15);
    this.#at = writeVarint(this.#scratch, this.#at, tag);
    const mark = this.begin();
    this.#at = writeUtf8(text, this.#scratch, this.#at);
    this.end(mark);
  }

  /** Fields that are written already. They are copied. */
  raw(fields: Uint8Array): void {
    this.#reserve(fields.length);
    this.#scratch.set(fields, this.#at);
    this.#at += fields.length;
  }

  /** A bytes field, written even when empty. The payload must stay as it is until it is sent. */
  bytes(tag: number, payload: Uint8Array): void {
    this.#reserve(20 + INLINE_BYTES);
    this.#at = writeVarint(this.#scratch, this.#at, tag);
    this.#at = writeVarint(this.#scratch, this.#at, payload.length);
    if (payload.length <= INLINE_BYTES) {
      this.#scratch.set(payload, this.#at);
      this.#at += payload.length;
    } else {
      this.#cuts.push(this.#at);
      this.#payloads.push(payload);
      this.#payloadBytes += payload.length;
    }
  }

  /** Starts a nested value of unknown length, which may hold no large payload. */
  begin(): number {
    this.#reserve(1);
    return this.#at++;
  }

  /** Ends it; a length past 127 moves the value to make room. */
  end(mark: number): void {
    const length = this.#at - mark - 1;
    if (length < 128) {
      this.#scratch[mark] = length;
      return;
    }
    const extra = varintSize(length) - 1;
    this.#reserve(extra);
    this.#scratch.copyWithin(mark + 1 + extra, mark + 1, this.#at);
    writeVarint(this.#scratch, mark, length);
    this.#at += extra;
  }

  /** Turns all that was written into the value of one field of an outer message. */
  wrap(tag: number): void {
    const length = this.size;
    this.#start -= varintSize(tag) + varintSize(length);
    if (this.#start < 0) throw new RangeError("wrapped too often");
    const at = writeVarint(this.#scratch, this.#start, tag);
    writeVarint(this.#scratch, at, length);
  }

  /** The pieces of the message; the first begins with `headroom` bytes for the caller to fill. */
  finish(headroom = 0): Uint8Array[] {
    const start = this.#start - headroom;
    if (start < 0) throw new RangeError(`headroom of ${headroom} bytes is more than there is`);
    const buffer = this.#allocate(this.#at - start);
    buffer.set(this.#scratch.subarray(start, this.#at));
    const pieces = this.#payloads.length === 0 ? [buffer] : this.#interleave(buffer, start);
    this.#reset();
    return pieces;
  }

  #interleave(buffer: Uint8Array, start: number): Uint8Array[] {
    const pieces: Uint8Array[] = [];
    let from = 0;
    this.#payloads.forEach((payload, k) => {
      const cut = (this.#cuts[k] ?? 0) - start;
      pieces.push(buffer.subarray(from, cut), payload);
      from = cut;
    });
    if (from < buffer.length) pieces.push(buffer.subarray(from));
    return pieces;
  }

  /** Forgets what was written, after `finish` or after a failure in between. */
  discard(): void {
    this.#reset();
  }

  #reset(): void {
    this.#start = HEADROOM;
    this.#at = HEADROOM;
    if (this.#payloads.length > 0) {
      this.#cuts = [];
      this.#payloads = [];
      this.#payloadBytes = 0;
    }
    if (this.#scratch.length > KEPT_CAPACITY) this.#scratch = new Uint8Array(FIRST_CAPACITY);
  }

  #reserve(bytes: number): void {
    if (this.#at + bytes <= this.#scratch.length) return;
    const grown = new Uint8Array(Math.max(this.#scratch.length * 2, this.#at + bytes));
    grown.set(this.#scratch.subarray(0, this.#at));
    this.#scratch = grown;
  }
}

/** Writes a non-negative safe integer and gives the offset behind it. */
function writeVarint(target: Uint8Array, at: number, value: number): number {
  let to = at;
  let rest = value;
  while (rest >= TWO_32) {
    target[to++] = (rest % 128) | 128;
    rest = Math.floor(rest / 128);
  }
  while (rest > 127) {
    target[to++] = (rest & 127) | 128;
    rest >>>= 7;
  }
  target[to++] = rest;
  return to;
}

function varintSize(value: number): number {
  let size = 1;
  for (let rest = value; rest > 127; rest = Math.floor(rest / 128)) size += 1;
  return size;
}
