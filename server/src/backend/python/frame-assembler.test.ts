import assert from "node:assert/strict";
import { test } from "node:test";
import { FrameAssembler, MAX_STUB_MESSAGE_BYTES } from "./frame-assembler.ts";

const BODIES = ["", "a", "hello", "x".repeat(300)];

function stream(): Buffer {
  return Buffer.concat(
    BODIES.flatMap((body) => {
      const head = Buffer.alloc(4);
      head.writeUInt32LE(body.length, 0);
      return [head, Buffer.from(body)];
    }),
  );
}

for (const step of [1, 2, 3, 5, 7, 64, 1000]) {
  test(`\`push()\` delivers whole messages when bytes come ${step} at a time`, () => {
    const got: string[] = [];
    const assembler = new FrameAssembler((body) => got.push(body.toString()));
    const bytes = stream();
    for (let at = 0; at < bytes.length; at += step) assembler.push(bytes.subarray(at, at + step));
    assert.deepEqual(got, BODIES);
  });
}

for (const [size, refused] of [
  [MAX_STUB_MESSAGE_BYTES, false],
  [MAX_STUB_MESSAGE_BYTES + 1, true],
] as const) {
  test(`\`push()\` ${refused ? "refuses" : "takes"} a message when its length is ${size}`, () => {
    const head = Buffer.alloc(4);
    head.writeUInt32LE(size, 0);
    const assembler = new FrameAssembler(() => undefined);
    assert[refused ? "throws" : "doesNotThrow"](() => assembler.push(head), RangeError);
  });
}
