/** The frames of HTTP/2 (RFC 9113, 4 and 6) that a gRPC load needs: writing them, and cutting what comes into them. Knows no gRPC. */

export const FRAME = { data: 0, headers: 1, reset: 3, settings: 4, ping: 6, goAway: 7, windowUpdate: 8 } as const;
export const FLAG = { ack: 1, endStream: 1, endHeaders: 4 } as const;
export const HEADER_BYTES = 9;
export const PREFACE: Buffer = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
export const INITIAL_WINDOW_BYTES = 65_535;
export const MAX_WINDOW_BYTES: number = 2 ** 31 - 1;
const SETTING_INITIAL_WINDOW = 4;

export function frame(type: number, flags: number, streamId: number, payload: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(HEADER_BYTES + payload.length);
  bytes.writeUIntBE(payload.length, 0, 3);
  bytes[3] = type;
  bytes[4] = flags;
  bytes.writeUInt32BE(streamId, 5);
  bytes.set(payload, HEADER_BYTES);
  return bytes;
}

export function windowUpdate(streamId: number, bytes: number): Buffer {
  const payload = Buffer.alloc(4);
  payload.writeUInt32BE(bytes);
  return frame(FRAME.windowUpdate, 0, streamId, payload);
}

/** Settings that give the peer the largest window for every stream. */
export function openSettings(): Buffer {
  const payload = Buffer.alloc(6);
  payload.writeUInt16BE(SETTING_INITIAL_WINDOW, 0);
  payload.writeUInt32BE(MAX_WINDOW_BYTES, 2);
  return frame(FRAME.settings, 0, 0, payload);
}

/** The window that the peer's settings give each stream, if they name it. */
export function initialWindowOf(settings: Buffer): number | undefined {
  for (let at = 0; at + 6 <= settings.length; at += 6) {
    if (settings.readUInt16BE(at) === SETTING_INITIAL_WINDOW) return settings.readUInt32BE(at + 2);
  }
  return undefined;
}

/** A literal header field that both sides put into their tables, so that later requests can refer to it. */
export function literalField(name: string | number, value: string): Buffer {
  const text = (part: string): Buffer => {
    const bytes = Buffer.from(part);
    return Buffer.concat([hpackLength(bytes.length), bytes]);
  };
  const start =
    typeof name === "number" ? Buffer.from([0x40 | name]) : Buffer.concat([Buffer.from([0x40]), text(name)]);
  return Buffer.concat([start, text(value)]);
}

/** Length of a string that is not Huffman coded: an integer with a prefix of 7 bits (RFC 7541, 5.1). */
function hpackLength(length: number): Buffer {
  if (length < 127) return Buffer.from([length]);
  const bytes = [127];
  let rest = length - 127;
  while (rest >= 128) {
    bytes.push((rest & 127) | 128);
    rest >>= 7;
  }
  return Buffer.from([...bytes, rest]);
}

export interface FrameListener {
  /** Payload of a data frame, or a part of it; `ends` with its last part when the stream ends with it. */
  data(streamId: number, bytes: Buffer, ends: boolean): void;
  /** Any other frame, whole. */
  control(type: number, flags: number, streamId: number, payload: Buffer): void;
}

export class FrameSplitter {
  readonly #listener: FrameListener;
  #kept: Buffer = Buffer.alloc(0);
  /** Bytes left of the current data frame. */
  #dataLeft = 0;
  #streamId = 0;
  #flags = 0;

  constructor(listener: FrameListener) {
    this.#listener = listener;
  }

  push(chunk: Buffer): void {
    const bytes = this.#kept.length === 0 ? chunk : Buffer.concat([this.#kept, chunk]);
    let at = 0;
    for (;;) {
      if (this.#dataLeft > 0) {
        const part = bytes.subarray(at, at + this.#dataLeft);
        if (part.length === 0) break;
        at += part.length;
        this.#dataLeft -= part.length;
        this.#listener.data(this.#streamId, part, this.#dataLeft === 0 && (this.#flags & FLAG.endStream) !== 0);
        continue;
      }
      const used = this.#frameAt(bytes, at);
      if (used === 0) break;
      at += used;
    }
    this.#kept = bytes.subarray(at);
  }

  /** @returns bytes taken, 0 when the frame is not whole */
  #frameAt(bytes: Buffer, at: number): number {
    if (bytes.length - at < HEADER_BYTES) return 0;
    const length = bytes.readUIntBE(at, 3);
    const type = bytes[at + 3] ?? 0;
    const flags = bytes[at + 4] ?? 0;
    const streamId = bytes.readUInt32BE(at + 5);
    if (type === FRAME.data && length > 0) {
      this.#dataLeft = length;
      this.#streamId = streamId;
      this.#flags = flags;
      return HEADER_BYTES;
    }
    const end = at + HEADER_BYTES + length;
    if (bytes.length < end) return 0;
    if (type === FRAME.data) this.#listener.data(streamId, bytes.subarray(end, end), (flags & FLAG.endStream) !== 0);
    else this.#listener.control(type, flags, streamId, bytes.subarray(at + HEADER_BYTES, end));
    return end - at;
  }
}
