import assert from "node:assert/strict";
import { test } from "node:test";
import { copyInto, LentMemory } from "./buffer-pool.ts";

const PAGE = 4096;

function memory(numPages: number): LentMemory {
  return new LentMemory(new SharedArrayBuffer((numPages + 1) * PAGE), 100, (numPages + 1) * PAGE);
}

/** Where a loan of so many pages begins, in pages, and how to give it back. */
function lend(from: LentMemory, numPages: number): readonly [at: number | undefined, release: () => void] {
  const loan = from.lend(numPages * PAGE);
  return [loan && loan.bytes.byteOffset / PAGE, loan?.release ?? (() => undefined)];
}

test("LentMemory gives what came back to the next who needs no more", () => {
  const pages = memory(10);
  const first = pages.lend(3 * PAGE - 5);
  assert.equal(first?.bytes.length, 3 * PAGE - 5);
  first?.release();
  assert.equal(pages.lend(100)?.bytes.byteOffset, first?.bytes.byteOffset);
});

test("LentMemory gives nobody what another still has, even when it comes back twice", () => {
  const pages = memory(10);
  const [first, release] = lend(pages, 1);
  release();
  const [second] = lend(pages, 1);
  release();
  const [third] = lend(pages, 1);
  assert.deepEqual([first, second, third], [1, 1, 2]);
});

test("LentMemory joins what comes back, in any order", () => {
  for (const order of [
    [0, 1, 2],
    [2, 1, 0],
    [1, 0, 2],
    [0, 2, 1],
    [2, 0, 1],
    [1, 2, 0],
  ]) {
    const pages = memory(6);
    const releases = [2, 1, 3].map((numPages) => lend(pages, numPages)[1]);
    assert.equal(lend(pages, 1)[0], undefined);
    for (const i of order) releases[i]?.();
    assert.equal(lend(pages, 6)[0], 1);
  }
});

test("LentMemory fills the first gap that is large enough", () => {
  const pages = memory(10);
  const [, releaseSmall] = lend(pages, 1);
  lend(pages, 1);
  const [, releaseLarge] = lend(pages, 3);
  lend(pages, 1);
  releaseSmall();
  releaseLarge();
  assert.deepEqual([lend(pages, 2)[0], lend(pages, 1)[0], lend(pages, 1)[0], lend(pages, 5)[0]], [3, 1, 5, undefined]);
});

test("copyInto() copies every byte, however both sides lie", () => {
  const source = Uint8Array.from({ length: 100 }, (_, i) => i + 1);
  for (let from = 0; from < 9; from++) {
    for (let at = 0; at < 9; at++) {
      const target = Buffer.from(new SharedArrayBuffer(120));
      copyInto(target, at, source.subarray(from, 90));
      assert.deepEqual([...target.subarray(at, at + 90 - from)], [...source.subarray(from, 90)]);
      assert.equal(target[at + 90 - from], 0);
    }
  }
});

test("copyInto() writes nothing behind its target, however both sides lie", () => {
  const memory = Buffer.from(new SharedArrayBuffer(64));
  for (let from = 0; from < 9; from++) {
    const source = new Uint8Array(40).fill(7).subarray(from, from + 17);
    assert.throws(() => copyInto(memory.subarray(8, 32), 8, source), RangeError);
  }
  assert.deepEqual(memory, Buffer.alloc(64));
});
