/**
 * Assembles the field block of a request from HEADERS and CONTINUATION (RFC 9113, 4.3 and 6.10) and decodes it.
 * Repeated requests are validated once.
 */
import { FLAG, HTTP2_ERROR, Http2Fault, MAX_WINDOW_BYTES } from "./codes.ts";
import { HeaderDecoder, type HeaderList } from "./header-decoder.ts";
import { MAX_BLOCK_BYTES, MAX_BLOCK_FRAMES } from "./limits.ts";
import { type RequestHead, readRequestHead } from "./request-head.ts";

const PRIORITY_BYTES = 5;

export interface HeaderBlock {
  readonly streamId: number;
  /** The request ends with it. */
  readonly ends: boolean;
  readonly dependsOnItself: boolean;
  readonly list: HeaderList;
}

export class HeaderBlocks {
  readonly #decoder: HeaderDecoder;
  #streamId = 0;
  #ends = false;
  #dependsOnItself = false;
  #parts: Buffer[] = [];
  #numBytes = 0;
  #isOpen = false;
  #lastList: HeaderList | undefined;
  #lastHead: RequestHead | undefined;

  constructor(maxListBytes: number) {
    this.#decoder = new HeaderDecoder(maxListBytes);
  }

  /** More of the block must follow. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** True when the block is whole. @throws Http2Fault */
  begin(streamId: number, flags: number, payload: Buffer): boolean {
    let from = 0;
    let to = payload.length;
    if ((flags & FLAG.padded) !== 0) {
      to -= payload[0] ?? 0;
      from = 1;
    }
    this.#dependsOnItself = false;
    if ((flags & FLAG.priority) !== 0) {
      if (payload.length < from + PRIORITY_BYTES) throw new Http2Fault(HTTP2_ERROR.frameSize, "headers are cut off");
      this.#dependsOnItself = (payload.readUInt32BE(from) & MAX_WINDOW_BYTES) === streamId;
      from += PRIORITY_BYTES;
    }
    if (to < from) throw new Http2Fault(HTTP2_ERROR.protocol, "padding is longer than its frame");
    this.#streamId = streamId;
    this.#ends = (flags & FLAG.endStream) !== 0;
    this.#parts = [];
    this.#numBytes = 0;
    return this.#part(payload.subarray(from, to), flags);
  }

  /** True when the block is whole. @throws Http2Fault */
  add(streamId: number, flags: number, payload: Buffer): boolean {
    if (!this.#isOpen || streamId !== this.#streamId) {
      throw new Http2Fault(HTTP2_ERROR.protocol, "headers continue that have not begun");
    }
    return this.#part(payload, flags);
  }

  #part(bytes: Buffer, flags: number): boolean {
    this.#parts.push(bytes);
    this.#numBytes += bytes.length;
    expectAtMost(this.#numBytes, MAX_BLOCK_BYTES, "bytes");
    expectAtMost(this.#parts.length, MAX_BLOCK_FRAMES, "frames");
    this.#isOpen = (flags & FLAG.endHeaders) === 0;
    return !this.#isOpen;
  }

  /** @throws Http2Fault when it cannot be decoded */
  finish(): HeaderBlock {
    const [first, ...rest] = this.#parts;
    const block = first !== undefined && rest.length === 0 ? first : Buffer.concat(this.#parts);
    this.#parts = [];
    const list = this.#decoder.decode(block);
    return { streamId: this.#streamId, ends: this.#ends, dependsOnItself: this.#dependsOnItself, list };
  }

  /** Undefined when it is malformed. */
  requestHead(list: HeaderList): RequestHead | undefined {
    if (list !== this.#lastList) {
      this.#lastHead = readRequestHead(list.fields);
      this.#lastList = list;
    }
    return this.#lastHead;
  }
}

function expectAtMost(got: number, most: number, unit: string): void {
  if (got <= most) return;
  throw new Http2Fault(
    HTTP2_ERROR.enhanceYourCalm,
    `a header block has ${got} ${unit} or more, expected at most ${most}`,
  );
}
