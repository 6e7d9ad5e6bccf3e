import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_HTTP_CHUNKS } from "../../../core/limits.ts";
import { BodyCollector } from "./read-body.ts";

const HOLDER = { hold: (): void => undefined };
const ONE_BYTE = Buffer.from("x");

test("a body takes as many small chunks as the limit, and not one more", () => {
  const collector = new BodyCollector(10 * MAX_HTTP_CHUNKS, 0);
  for (let i = 0; i < MAX_HTTP_CHUNKS; i++) collector.add(ONE_BYTE, HOLDER);
  assert.throws(() => collector.add(ONE_BYTE, HOLDER), /exceeds maximum of 65536 non-empty chunks/);
});

test("a body beyond its limit is counted and not kept", () => {
  const collector = new BodyCollector(10, 0);
  for (let i = 0; i < 11; i++) collector.add(ONE_BYTE, HOLDER);
  assert.equal(collector.numKeptBytes, 0);
  const { bytes, size } = collector.finish();
  assert.deepEqual([bytes.length, size], [0, 11]);
});

test("a body of one-byte chunks costs memory in proportion to its bytes", () => {
  const collector = new BodyCollector(10 * MAX_HTTP_CHUNKS, 0);
  let heldBytes = 0;
  const holder = {
    hold: (numBytes: number): void => {
      heldBytes += numBytes;
    },
  };
  const numBytes = MAX_HTTP_CHUNKS;
  for (let i = 0; i < numBytes; i++) collector.add(Buffer.from([i & 255]), holder);
  assert.ok(heldBytes >= numBytes && heldBytes <= 4 * numBytes, `${heldBytes}`);
  const { bytes, size } = collector.finish();
  assert.equal(size, numBytes);
  assert.deepEqual(bytes, Buffer.from(Array.from({ length: numBytes }, (_, i) => i & 255)));
});

test("finishInTurns() joins a large body while others run, and gives a small one at once", async () => {
  const small = new BodyCollector(100, 0);
  small.add(Buffer.from("ab"), HOLDER);
  assert.deepEqual(small.finishInTurns(), { bytes: Buffer.from("ab"), size: 2 });
  const large = new BodyCollector(2 ** 30, 0);
  const pieces = Array.from({ length: 256 }, (_, i) => Buffer.alloc(2 ** 18, i));
  for (const piece of pieces) large.add(piece, HOLDER);
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const { bytes, size } = await large.finishInTurns();
  isOver = true;
  assert.equal(size, 2 ** 26);
  assert.ok(bytes.equals(Buffer.concat(pieces)));
  assert.ok(turns > 0);
});
