import assert from "node:assert/strict";
import { test } from "node:test";
import { copyToShared, LentMemory } from "./lent-memory.ts";

const MB = 1024 * 1024;

test("LentMemory gives a piece that came back to the next who needs no more", () => {
  const memory = new LentMemory(10 * MB);
  const first = memory.lend(3 * MB - 5);
  assert.equal(first?.bytes.length, 3 * MB - 5);
  first?.release();
  const second = memory.lend(100);
  assert.equal(second?.bytes.length, 100);
  assert.equal(second?.bytes.buffer, first?.bytes.buffer);
});

test("LentMemory gives nobody what another still has, even when it comes back twice", () => {
  const memory = new LentMemory(10 * MB);
  const first = memory.lend(10);
  first?.release();
  const second = memory.lend(10);
  first?.release();
  const third = memory.lend(10);
  assert.equal(second?.bytes.buffer, first?.bytes.buffer);
  assert.notEqual(third?.bytes.buffer, second?.bytes.buffer);
});

test("LentMemory takes the smallest piece that is large enough", () => {
  const memory = new LentMemory(10 * MB);
  const [large, small] = [memory.lend(4 * MB), memory.lend(2 * MB)];
  large?.release();
  small?.release();
  assert.equal(memory.lend(2 * MB)?.bytes.buffer, small?.bytes.buffer);
  assert.equal(memory.lend(2 * MB)?.bytes.buffer, large?.bytes.buffer);
});

test("LentMemory lends no more than its limit", () => {
  const memory = new LentMemory(3 * MB);
  const first = memory.lend(2 * MB);
  assert.equal(memory.lend(1.5 * MB), undefined);
  assert.notEqual(memory.lend(1 * MB), undefined);
  first?.release();
  assert.notEqual(memory.lend(1.5 * MB), undefined);
});

test("copyToShared() copies every byte, however both sides lie", () => {
  const source = Uint8Array.from({ length: 100 }, (_, i) => i + 1);
  for (let from = 0; from < 9; from++) {
    for (let at = 0; at < 9; at++) {
      const target = new Uint8Array(new SharedArrayBuffer(120));
      copyToShared(target, at, source.subarray(from, 90));
      assert.deepEqual([...target.subarray(at, at + 90 - from)], [...source.subarray(from, 90)]);
      assert.equal(target[at + 90 - from], 0);
    }
  }
});
