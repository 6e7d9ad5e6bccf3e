import assert from "node:assert/strict";
import { test } from "node:test";
import { BufferPool, copyInto } from "./buffer-pool.ts";

const PAGE = 4096;

function memory(numPages: number): BufferPool {
  return new BufferPool(new SharedArrayBuffer((numPages + 1) * PAGE), 100, (numPages + 1) * PAGE);
}

/** The first page of a lease of `numPages`, and its release. */
function lease(from: BufferPool, numPages: number): readonly [at: number | undefined, release: () => void] {
  const lease = from.lease(numPages * PAGE);
  return [lease && lease.bytes.byteOffset / PAGE, lease?.release ?? (() => undefined)];
}

test("BufferPool leases a released range again for as many bytes", () => {
  const pages = memory(10);
  const first = pages.lease(3 * PAGE - 5);
  assert.equal(first?.bytes.length, 3 * PAGE - 5);
  first?.release();
  assert.equal(pages.lease(100)?.bytes.byteOffset, first?.bytes.byteOffset);
});

test("BufferPool leases no range twice, even when a lease is released twice", () => {
  const pages = memory(10);
  const [first, release] = lease(pages, 1);
  release();
  const [second] = lease(pages, 1);
  release();
  const [third] = lease(pages, 1);
  assert.deepEqual([first, second, third], [1, 1, 2]);
});

test("BufferPool joins released ranges, in any order", () => {
  for (const order of [
    [0, 1, 2],
    [2, 1, 0],
    [1, 0, 2],
    [0, 2, 1],
    [2, 0, 1],
    [1, 2, 0],
  ]) {
    const pages = memory(6);
    const releases = [2, 1, 3].map((numPages) => lease(pages, numPages)[1]);
    assert.equal(lease(pages, 1)[0], undefined);
    for (const i of order) releases[i]?.();
    assert.equal(lease(pages, 6)[0], 1);
  }
});

test("BufferPool fills the first gap that is large enough", () => {
  const pages = memory(10);
  const [, releaseSmall] = lease(pages, 1);
  lease(pages, 1);
  const [, releaseLarge] = lease(pages, 3);
  lease(pages, 1);
  releaseSmall();
  releaseLarge();
  assert.deepEqual(
    [lease(pages, 2)[0], lease(pages, 1)[0], lease(pages, 1)[0], lease(pages, 5)[0]],
    [3, 1, 5, undefined],
  );
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
