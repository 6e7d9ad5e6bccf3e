import assert from "node:assert/strict";
import process from "node:process";
import { after, test } from "node:test";
import { FakeCudaDriver, fakeHandle, hasCompiler } from "../../../../tests/fakes/cuda-driver.ts";
import { SharedMemoryObject } from "../../../../tests/fakes/shared-memory-object.ts";
import { SharedDevices } from "./shared-memory.ts";

const options = { skip: hasCompiler ? false : "needs a C compiler" };
const driver = hasCompiler ? new FakeCudaDriver() : undefined;
process.env.NEREID_CUDA_LIBRARIES = driver?.folder;
after(() => driver?.[Symbol.dispose]());

test("openMemory() reads and writes what another process has, until it is closed", options, () => {
  using object = new SharedMemoryObject(Uint8Array.from({ length: 40 }, (_, i) => i));
  const memory = new SharedDevices().openMemory(fakeHandle(object.name), 0);
  const again = new SharedDevices().openMemory(fakeHandle(object.name), 0);
  const bytes = new Uint8Array(3);
  memory.read(37, bytes);
  memory.write(1, Uint8Array.of(70, 71));
  again.read(0, bytes.subarray(0, 0));
  assert.deepEqual([memory.numBytes, [...bytes]], [40, [37, 38, 39]]);
  assert.deepEqual([...object.read().subarray(0, 4)], [0, 70, 71, 3]);
  memory.close();
  assert.equal(object.mappings(), 1);
  again.close();
  assert.equal(object.mappings(), 0);
});

for (const [what, handle, ordinal, message] of [
  [
    "no object",
    fakeHandle("nereid_nothing"),
    0,
    /^opening shared memory of GPU 0: CUDA_ERROR_INVALID_VALUE: invalid argument$/,
  ],
  ["another GPU", fakeHandle("nereid_nothing"), 1, /^expected a GPU from 0 to 0, got 1$/],
  ["a negative GPU", fakeHandle("nereid_nothing"), -1, /^expected a GPU from 0 to 0, got -1$/],
  ["half a handle", fakeHandle("nereid_nothing").subarray(32), 0, /^expected a handle of 64 bytes, got 32$/],
] as const) {
  test(`openMemory() refuses a handle of ${what}`, options, () => {
    assert.throws(() => new SharedDevices().openMemory(handle, ordinal), { message });
  });
}

test("read() and write() do not leave the memory", options, () => {
  using object = new SharedMemoryObject(8);
  const memory = new SharedDevices().openMemory(fakeHandle(object.name), 0);
  assert.throws(() => memory.read(6, new Uint8Array(3)), { message: "expected bytes within 8, got 3 at 6" });
  assert.throws(() => memory.write(-1, new Uint8Array(1)), { message: "expected bytes within 8, got 1 at -1" });
  memory.close();
});
