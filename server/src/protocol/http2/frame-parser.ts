/**
 * Cuts the client's bytes into frames (RFC 9113, 4.1). DATA payloads are passed on in the pieces in which they arrive,
 * without a copy; other frames are assembled after a check of their length. Knows no stream.
 */

import { DEFAULT_FRAME_BYTES, FLAG, FRAME, FRAME_HEADER_BYTES, HTTP2_ERROR, Http2Fault, PREFACE } from "./codes.ts";
import { MAX_FRAME_BYTES } from "./limits.ts";

export interface FrameReceiver {
  /** A data frame begins; `length` counts against the windows, `padding` of it is worth nothing. */
  dataStart(streamId: number, length: number, padding: number, ends: boolean): void;
  /** `ends`: the last piece of a frame that ends its stream. */
  data(streamId: number, piece: Buffer, ends: boolean): void;
  /** Any other known frame, whole. */
  frame(type: number, flags: number, streamId: number, payload: Buffer): void;
}

const EMPTY: Buffer = Buffer.alloc(0);
const STREAM_MASK = 0x7fffffff;
const LAST_KNOWN: number = FRAME.continuation;

export class FrameParser {
  readonly #receiver: FrameReceiver;
  /** The bytes so far of a frame that is not whole; room for all of it, so that frames in small pieces are copied once. */
  #kept: Buffer = EMPTY;
  #numKept = 0;
  /** Bytes that the next step takes at least. */
  #needed = PREFACE.length;
  #hasPreface = false;
  /** The current DATA frame: rest of its payload, its padding, and bytes of unknown frames. */
  #dataLeft = 0;
  #skipLeft = 0;
  #streamId = 0;
  #ends = false;
  #isStopped = false;
  /** Frames that have come whole; those of data, when they begin. */
  numFrames = 0;

  constructor(receiver: FrameReceiver) {
    this.#receiver = receiver;
  }

  /** A frame has begun, and what has come of it is kept. */
  get isHalf(): boolean {
    return this.#numKept > 0;
  }

  /** Discards all further input. */
  stop(): void {
    this.#isStopped = true;
    this.#forget();
  }

  /** @throws Http2Fault */
  push(chunk: Buffer): void {
    if (this.#isStopped) return;
    const bytes = this.#numKept === 0 ? chunk : this.#joined(chunk);
    if (bytes === undefined) return;
    let at = this.#hasPreface ? 0 : this.#preface(bytes);
    while (this.#hasPreface && !this.#isStopped) {
      const used = this.#dataLeft + this.#skipLeft > 0 ? this.#rest(bytes, at) : this.#start(bytes, at);
      if (used === 0) break;
      at += used;
    }
    if (!this.#isStopped && at < bytes.length) this.#keep(bytes.subarray(at));
  }

  /** Undefined: the frame is still not whole, and the chunk is kept. */
  #joined(chunk: Buffer): Buffer | undefined {
    const end = this.#numKept + chunk.length;
    // Before its end, the preface is compared as it comes.
    if (end < this.#needed && this.#hasPreface) {
      chunk.copy(this.#kept, this.#numKept);
      this.#numKept = end;
      return undefined;
    }
    const bytes = Buffer.concat([this.#kept.subarray(0, this.#numKept), chunk]);
    this.#forget();
    return bytes;
  }

  #keep(bytes: Buffer): void {
    this.#kept = Buffer.allocUnsafeSlow(this.#needed);
    this.#numKept = bytes.copy(this.#kept);
  }

  #forget(): void {
    this.#kept = EMPTY;
    this.#numKept = 0;
  }

  /** Says how many bytes the step takes. @returns 0: too few are there */
  #wait(bytes: number): 0 {
    this.#needed = bytes;
    return 0;
  }

  #preface(bytes: Buffer): number {
    const length = Math.min(bytes.length, PREFACE.length);
    if (PREFACE.compare(bytes, 0, length, 0, length) !== 0) {
      throw new Http2Fault(HTTP2_ERROR.protocol, "the connection does not begin as HTTP/2 does");
    }
    this.#hasPreface = length === PREFACE.length;
    return this.#hasPreface ? length : 0;
  }

  /** Consumes payload of a DATA frame, or bytes to ignore. */
  #rest(bytes: Buffer, at: number): number {
    const available = bytes.length - at;
    if (available === 0) return 0;
    if (this.#dataLeft > 0) {
      const piece = bytes.subarray(at, at + Math.min(available, this.#dataLeft));
      this.#dataLeft -= piece.length;
      this.#receiver.data(this.#streamId, piece, this.#ends && this.#dataLeft === 0);
      return piece.length;
    }
    const skipped = Math.min(available, this.#skipLeft);
    this.#skipLeft -= skipped;
    return skipped;
  }

  /** @returns bytes taken; 0: too few */
  #start(bytes: Buffer, at: number): number {
    if (bytes.length - at < FRAME_HEADER_BYTES) return this.#wait(FRAME_HEADER_BYTES);
    const length = bytes.readUIntBE(at, 3);
    const type = bytes[at + 3] ?? 0;
    const flags = bytes[at + 4] ?? 0;
    const streamId = bytes.readUInt32BE(at + 5) & STREAM_MASK;
    const most = type === FRAME.data || type === FRAME.headers ? MAX_FRAME_BYTES : DEFAULT_FRAME_BYTES;
    if (length > most) {
      const text = `a frame of type ${type} has ${length} bytes, expected at most ${most}`;
      throw new Http2Fault(HTTP2_ERROR.frameSize, text);
    }
    if (type === FRAME.data) return this.#startData(bytes, at, length, flags, streamId);
    if (type > LAST_KNOWN) {
      // Unknown frames are to be ignored, but not between the parts of a header block: the receiver judges.
      this.#receiver.frame(type, flags, streamId, EMPTY);
      this.#skipLeft = length;
      return FRAME_HEADER_BYTES;
    }
    const end = at + FRAME_HEADER_BYTES + length;
    if (bytes.length < end) return this.#wait(end - at);
    this.numFrames += 1;
    this.#receiver.frame(type, flags, streamId, bytes.subarray(at + FRAME_HEADER_BYTES, end));
    return end - at;
  }

  #startData(bytes: Buffer, at: number, length: number, flags: number, streamId: number): number {
    const isPadded = (flags & FLAG.padded) !== 0;
    const head = FRAME_HEADER_BYTES + (isPadded ? 1 : 0);
    if (isPadded && length > 0 && bytes.length - at < head) return this.#wait(head);
    const padding = isPadded ? (bytes[at + FRAME_HEADER_BYTES] ?? 0) : 0;
    if (isPadded && padding >= length) throw new Http2Fault(HTTP2_ERROR.protocol, "padding is longer than its frame");
    this.numFrames += 1;
    const worthless = isPadded ? padding + 1 : 0;
    this.#ends = (flags & FLAG.endStream) !== 0;
    this.#receiver.dataStart(streamId, length, worthless, this.#ends);
    this.#streamId = streamId;
    this.#dataLeft = length - worthless;
    this.#skipLeft = padding;
    if (this.#dataLeft === 0) this.#receiver.data(streamId, EMPTY, this.#ends);
    return head;
  }
}
