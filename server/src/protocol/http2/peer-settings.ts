/** The peer's SETTINGS frames (RFC 9113, 6.5). Checks the values; applies nothing. */
import { DEFAULT_FRAME_BYTES, HTTP2_ERROR, Http2Fault, MAX_WINDOW_BYTES, SETTING } from "./codes.ts";

const ENTRY_BYTES = 6;
const LARGEST_FRAME: number = 2 ** 24 - 1;

export interface PeerSettings {
  readonly headerTableSize?: number;
  readonly initialWindowSize?: number;
  readonly maxFrameSize?: number;
}

/** Only what was named; of repeated settings the last. @throws Http2Fault */
export function readSettings(payload: Buffer): PeerSettings {
  if (payload.length % ENTRY_BYTES !== 0) throw new Http2Fault(HTTP2_ERROR.frameSize, "settings are cut off");
  const found: { headerTableSize?: number; initialWindowSize?: number; maxFrameSize?: number } = {};
  for (let at = 0; at < payload.length; at += ENTRY_BYTES) {
    const value = payload.readUInt32BE(at + 2);
    switch (payload.readUInt16BE(at)) {
      case SETTING.headerTableSize:
        found.headerTableSize = value;
        break;
      case SETTING.enablePush:
        if (value > 1) throw new Http2Fault(HTTP2_ERROR.protocol, `ENABLE_PUSH is ${value}`);
        break;
      case SETTING.initialWindowSize:
        if (value > MAX_WINDOW_BYTES) throw new Http2Fault(HTTP2_ERROR.flowControl, `INITIAL_WINDOW_SIZE is ${value}`);
        found.initialWindowSize = value;
        break;
      case SETTING.maxFrameSize:
        if (value < DEFAULT_FRAME_BYTES || value > LARGEST_FRAME) {
          throw new Http2Fault(HTTP2_ERROR.protocol, `MAX_FRAME_SIZE is ${value}`);
        }
        found.maxFrameSize = value;
        break;
    }
  }
  return found;
}

export function settingsPayload(settings: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.alloc(settings.length * ENTRY_BYTES);
  for (const [i, [id, value]] of settings.entries()) {
    payload.writeUInt16BE(id, i * ENTRY_BYTES);
    payload.writeUInt32BE(value, i * ENTRY_BYTES + 2);
  }
  return payload;
}
