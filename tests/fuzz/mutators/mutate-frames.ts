/** Breaks a conversation of HTTP/2 frame by frame: types, flags, streams, lengths, payloads, order (RFC 9113, 4.1). */
import type { Random } from "../../support/random.ts";
import { mutateBytes } from "./mutate-bytes.ts";

const HEAD_BYTES = 9;
const MAX_COPIES = 40;

export function frameBytes(type: number, flags: number, id: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(id, 5);
  return Buffer.concat([head, payload]);
}

/** One to four mutations of a sequence of whole frames. */
export function mutateFrames(seed: Buffer, random: Random): Buffer {
  const frames = split(seed);
  for (let left = 1 + random.below(4); left > 0; left -= 1) {
    const at = random.below(frames.length);
    frames.splice(at, 1, ...changed(frames[at] ?? Buffer.alloc(0), frames, random));
  }
  const bytes = Buffer.concat(frames);
  return random.below(8) === 0 ? mutateBytes(bytes, random) : bytes;
}

function split(bytes: Buffer): Buffer[] {
  const frames: Buffer[] = [];
  for (let at = 0; at + HEAD_BYTES <= bytes.length; ) {
    const end = at + HEAD_BYTES + bytes.readUIntBE(at, 3);
    frames.push(bytes.subarray(at, end));
    at = end;
  }
  return frames;
}

function changed(frame: Buffer, frames: readonly Buffer[], random: Random): readonly Buffer[] {
  const [type = 0, flags = 0] = frame.subarray(3, 5);
  const id = frame.length >= HEAD_BYTES ? frame.readUInt32BE(5) : 0;
  const payload = frame.subarray(HEAD_BYTES);
  switch (random.below(9)) {
    case 0:
      return [frameBytes(random.below(12), flags, id, payload)];
    case 1:
      return [frameBytes(type, random.below(256), id, payload)];
    case 2:
      return [frameBytes(type, flags, random.pick([0, 1, 2, 3, 5, 2 ** 31 - 1, 2 ** 32 - 1]), payload)];
    case 3:
      return [frameBytes(type, flags, id, mutateBytes(payload, random))];
    case 4:
      return Array.from({ length: random.below(MAX_COPIES) }, () => frame);
    case 5:
      return [];
    case 6:
      return [frame, random.pick(frames)];
    case 7:
      return [frameBytes(type, flags, id, Buffer.alloc(random.pick([0, 1, 255, 16_384, 16_385])))];
    default:
      return [frame.subarray(0, random.below(frame.length + 1))];
  }
}
