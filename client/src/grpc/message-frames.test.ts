import assert from "node:assert/strict";
import { test } from "node:test";
import { compressFrame, decompressMessage, frameOf, MessageCutter } from "./message-frames.ts";

const MESSAGES = [Uint8Array.of(1, 2, 3), new Uint8Array(0), new Uint8Array(300).fill(9)];
const LIMIT = 300;

function cut(chunks: readonly Uint8Array[]): Uint8Array[] {
  const cutter = new MessageCutter(LIMIT);
  return chunks.flatMap((chunk) => cutter.push(chunk)).map(({ bytes }) => new Uint8Array(bytes));
}

test("MessageCutter gives the messages wherever chunks end", () => {
  const bytes = new Uint8Array(Buffer.concat(MESSAGES.map(frameOf)));
  assert.deepEqual(cut([bytes]), MESSAGES);
  assert.deepEqual(cut([...bytes].map((byte) => Uint8Array.of(byte))), MESSAGES);
  for (let at = 0; at <= bytes.length; at++) {
    assert.deepEqual(cut([bytes.subarray(0, at), bytes.subarray(at)]), MESSAGES, `cut at ${at}`);
  }
});

test("MessageCutter refuses a longer message before it comes, and knows of a rest", () => {
  const cutter = new MessageCutter(LIMIT);
  cutter.push(Uint8Array.of(0, 0, 0));
  assert.equal(cutter.isWithinMessage, true);
  assert.throws(() => cutter.push(Uint8Array.of(0x01, 0x2d)), { kind: "protocol", message: /301 bytes, more than/ });
});

for (const algorithm of ["gzip", "deflate"] as const) {
  test(`a frame compressed by ${algorithm} is read again, within the limit`, async () => {
    const message = new Uint8Array(2000).fill(7);
    const frame = Buffer.concat(await compressFrame([frameOf(message)], algorithm));
    const [received] = new MessageCutter(LIMIT).push(frame);
    assert.ok(received !== undefined);
    assert.equal(received.isCompressed, true);
    assert.deepEqual(await decompressMessage(received, algorithm, 2000), message);
    await assert.rejects(decompressMessage(received, algorithm, 1999), { kind: "protocol" });
    await assert.rejects(decompressMessage(received, "snappy", 2000), /compressed as 'snappy'/);
  });
}
