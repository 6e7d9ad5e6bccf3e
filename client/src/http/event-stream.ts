/**
 * Parses server-sent events (WHATWG HTML, https://html.spec.whatwg.org/multipage/server-sent-events.html) into the
 * data of each event. Works on bytes: line ends never occur inside a longer UTF-8 sequence (RFC 3629), so chunks may
 * end anywhere. Names, ids and comments are skipped.
 */
import { ClientError } from "../client-error.ts";

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const COLON = 0x3a;
const SPACE = 0x20;
const DATA = [0x64, 0x61, 0x74, 0x61];
const FIRST_BYTES = 1024;

export class EventStreamParser {
  readonly #maxEventBytes: number;
  readonly #line = new ByteList();
  /** Data lines of the incomplete event, joined by line feeds. */
  #data: ByteList | undefined;
  #skipsLineFeed = false;

  constructor(maxEventBytes: number) {
    this.#maxEventBytes = maxEventBytes;
  }

  /** The events that the next chunk completes. @throws ClientError when an event is too long */
  push(chunk: Uint8Array): Uint8Array[] {
    const events: Uint8Array[] = [];
    let start = 0;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at];
      const isSecondHalf = this.#skipsLineFeed && byte === LINE_FEED;
      this.#skipsLineFeed = byte === CARRIAGE_RETURN;
      if (byte !== LINE_FEED && byte !== CARRIAGE_RETURN) continue;
      if (!isSecondHalf) {
        this.#take(chunk.subarray(start, at));
        this.#endLine(events);
      }
      start = at + 1;
    }
    this.#take(chunk.subarray(start));
    return events;
  }

  /** @throws ClientError when the stream has ended within an event */
  end(): void {
    if (this.#line.length === 0 && this.#data === undefined) return;
    throw new ClientError("protocol", "the event stream ended within an event");
  }

  #take(bytes: Uint8Array): void {
    if (this.#line.length + (this.#data?.length ?? 0) + bytes.length > this.#maxEventBytes) {
      throw new ClientError("protocol", `an event has more than maxResponseBytes (${this.#maxEventBytes}) bytes`);
    }
    this.#line.append(bytes);
  }

  #endLine(events: Uint8Array[]): void {
    const line = this.#line.bytes();
    if (line.length > 0) {
      this.#field(line);
    } else if (this.#data !== undefined) {
      events.push(this.#data.bytes());
      this.#data = undefined;
    }
    this.#line.clear();
  }

  #field(line: Uint8Array): void {
    const isData = DATA.every((byte, i) => line[i] === byte) && (line.length === 4 || line[4] === COLON);
    if (!isData) return;
    if (this.#data === undefined) this.#data = new ByteList();
    else this.#data.append(Uint8Array.of(LINE_FEED));
    this.#data.append(line.subarray(line[5] === SPACE ? 6 : 5));
  }
}

/** A growing byte buffer. */
class ByteList {
  #bytes = new Uint8Array(FIRST_BYTES);
  length = 0;

  append(more: Uint8Array): void {
    const length = this.length + more.length;
    if (length > this.#bytes.length) {
      const grown = new Uint8Array(length * 2);
      grown.set(this.bytes());
      this.#bytes = grown;
    }
    this.#bytes.set(more, this.length);
    this.length = length;
  }

  /** A view, valid until the next change. */
  bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.length);
  }

  clear(): void {
    this.length = 0;
  }
}
