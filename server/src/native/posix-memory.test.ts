import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { SharedMemoryObject } from "../../../tests/fakes/shared-memory-object.ts";
import { addressOf } from "./ffi.ts";
import { MappingError, mapSharedMemory } from "./posix-memory.ts";

const PAGE_BYTES = 4096;
const MAX_TURNS = 200;

test("mapSharedMemory() shows the object itself, both ways", () => {
  using object = new SharedMemoryObject(Uint8Array.of(1, 2, 3, 4));
  const mapping = mapSharedMemory(object.key, 0, 4);
  const bytes = mapping.bytes();
  assert.deepEqual([...bytes], [1, 2, 3, 4]);
  bytes[2] = 9;
  assert.deepEqual([...object.read()], [1, 2, 9, 4]);
  mapping.close();
});

test("mapSharedMemory() maps from an offset", () => {
  const content = Buffer.alloc(PAGE_BYTES + 3);
  content.set([7, 8, 9], PAGE_BYTES);
  using object = new SharedMemoryObject(content);
  const mapping = mapSharedMemory(object.key, PAGE_BYTES, 3);
  assert.deepEqual([...mapping.bytes()], [7, 8, 9]);
  mapping.close();
});

for (const [what, fault, message, offset, byteLength] of [
  ["a part one byte longer than the object", "bounds", /less than 65 bytes/, 1, 64],
  ["a part that begins behind the object", "bounds", /less than 8193 bytes/, 2 * PAGE_BYTES, 1],
  ["an offset inside of a page", "mapping", /^Invalid argument$/, 16, 8],
  ["no bytes", "mapping", /^Invalid argument$/, 0, 0],
] as const) {
  test(`mapSharedMemory() refuses ${what}`, () => {
    using object = new SharedMemoryObject(64);
    const expected = (error: unknown): boolean =>
      error instanceof MappingError && error.fault === fault && message.test(error.message);
    assert.throws(() => mapSharedMemory(object.key, offset, byteLength), expected);
    assert.equal(object.mappings(), 0);
  });
}

for (const name of ["/nereid_no_such_object", "", "/", "/.", "/..", `/${"x".repeat(300)}`]) {
  test(`mapSharedMemory() finds no object '${name.slice(0, 30)}'`, () => {
    assert.throws(
      () => mapSharedMemory(name, 0, 1),
      (error) => error instanceof MappingError && ["object", "bounds"].includes(error.fault),
    );
  });
}

test("isIntact() is false once the object is shorter than what is mapped of it", () => {
  using object = new SharedMemoryObject(3 * PAGE_BYTES);
  const mapping = mapSharedMemory(object.key, PAGE_BYTES, PAGE_BYTES);
  object.resize(2 * PAGE_BYTES);
  assert.equal(mapping.isIntact(), true);
  object.resize(2 * PAGE_BYTES - 1);
  assert.equal(mapping.isIntact(), false);
  mapping.close();
});

test("close() gives the object back at once, and what still sees its bytes reads zeros", () => {
  using object = new SharedMemoryObject(Uint8Array.of(1, 2, 3));
  const mapping = mapSharedMemory(object.key, 0, 3);
  const bytes = mapping.bytes();
  assert.equal(object.mappings(), 1);
  mapping.close();
  assert.equal(object.mappings(), 0);
  assert.deepEqual([...bytes], [0, 0, 0]);
  bytes[0] = 5;
  assert.deepEqual([...object.read()], [1, 2, 3]);
});

function isMapped(address: bigint): boolean {
  return readFileSync("/proc/self/maps", "utf8")
    .split("\n")
    .map((line) => line.split(/[- ]/))
    .some(([from = "", to = ""]) => BigInt(`0x${from || "0"}`) <= address && address < BigInt(`0x${to || "0"}`));
}

/** Large, so that its addresses are not within a range that something else has mapped. */
const LARGE_BYTES: number = 1024 * 1024 * 1024;

function closedAddress(): bigint {
  using object = new SharedMemoryObject(LARGE_BYTES);
  const mapping = mapSharedMemory(object.key, 0, LARGE_BYTES);
  const address = addressOf(mapping.bytes()) + BigInt(LARGE_BYTES / 2);
  mapping.close();
  return address;
}

test("the addresses are freed when nothing sees the bytes any more", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const address = closedAddress();
  assert.equal(isMapped(address), true);
  for (let turn = 0; turn < MAX_TURNS && isMapped(address); turn++) {
    collect();
    await nextTurn();
  }
  assert.equal(isMapped(address), false);
});
