import assert from "node:assert/strict";
import { closeSync, fstatSync, ftruncateSync, openSync, readFileSync } from "node:fs";
import process from "node:process";
import { test } from "node:test";
import { addressOf } from "./ffi.ts";
import { MemoryFile } from "./memory-file.ts";
import { copyFromProcess } from "./process-copy.ts";

const PAGE = 65_536;
const options = { skip: process.platform === "linux" ? false : "memory files need Linux" };

test("`MemoryFile` shows in its file what is written to its ranges", options, () => {
  using file = new MemoryFile("test");
  const first = file.grow(PAGE);
  const second = file.grow(2 * PAGE);
  first.bytes.fill(1);
  second.bytes.fill(2);
  const content = readFileSync(`/proc/self/fd/${file.descriptor}`);
  assert.deepEqual([first.offset, second.offset, content.length], [0, PAGE, 3 * PAGE]);
  assert.ok(content.subarray(0, PAGE).every((byte) => byte === 1));
  assert.ok(content.subarray(PAGE).every((byte) => byte === 2));
});

test("`MemoryFile` cannot be made shorter by a process that has it open", options, () => {
  using file = new MemoryFile("test");
  file.grow(PAGE);
  const other = openSync(`/proc/self/fd/${file.descriptor}`, "r+");
  assert.throws(() => ftruncateSync(other, 0), { code: "EPERM" });
  closeSync(other);
});

test("`discard()` gives the memory back and leaves zeros", options, () => {
  using file = new MemoryFile("test");
  const range = file.grow(PAGE);
  range.bytes.fill(1);
  const before = fstatSync(file.descriptor).blocks;
  file.discard(range);
  assert.ok(before > 0);
  assert.equal(fstatSync(file.descriptor).blocks, 0);
  assert.equal(range.bytes[5], 0);
});

test("`copyFromProcess()` copies memory by its address", options, () => {
  const source = Buffer.from("what lies there");
  const target = Buffer.alloc(source.length);
  copyFromProcess(process.pid, addressOf(source), target);
  assert.deepEqual(target, source);
});

test("`copyFromProcess()` throws when nothing lies there", options, () => {
  assert.throws(() => copyFromProcess(process.pid, 8n, Buffer.alloc(1)), /process_vm_readv: Bad address/);
  assert.throws(() => copyFromProcess(2 ** 22 + 1, 8n, Buffer.alloc(1)), /process_vm_readv: No such process/);
});
