import assert from "node:assert/strict";
import { test } from "node:test";
import { SharedMemoryObject } from "../../../tests/fakes/shared-memory-object.ts";
import { MAX_SHARED_MEMORY_REGION_BYTES, MAX_SHARED_MEMORY_REGIONS } from "../core/limits.ts";
import type { ErrorCode, ServerError } from "../core/server-error.ts";
import { RequestMemory, writeOutput } from "./request-memory.ts";
import { SharedMemoryRegions } from "./shared-memory.ts";

const MAX_UINT64 = 2n ** 64n - 1n;
const CONTENT: Uint8Array = Uint8Array.from({ length: 64 }, (_, i) => i);

function refusal(code: ErrorCode, message: string): (error: unknown) => boolean {
  return (error) => {
    assert.deepEqual([(error as ServerError).code, (error as ServerError).message], [code, message]);
    return true;
  };
}

/** A table with one region "r" of 64 bytes. */
function oneRegion(): { regions: SharedMemoryRegions; object: SharedMemoryObject } & Disposable {
  const regions = new SharedMemoryRegions(true);
  const object = new SharedMemoryObject(CONTENT);
  regions.register("r", object.key, 0n, 64n);
  return {
    regions,
    object,
    [Symbol.dispose]: () => {
      regions.unregister("");
      object[Symbol.dispose]();
    },
  };
}

const RESERVED = "triton_python_backend_shm_region_";
for (const slashes of ["", "/", "//", "/////"]) {
  test(`register() refuses the reserved prefix behind '${slashes}'`, () => {
    const key = `${slashes}${RESERVED}1`;
    const message = `cannot register shared memory region 'r' with key '${key}' as the key contains the reserved prefix '${RESERVED}'`;
    assert.throws(() => new SharedMemoryRegions(true).register("r", key, 0n, 8n), refusal("invalid_argument", message));
  });
}

for (const key of ["", "/", "///", "///////"]) {
  test(`register() refuses the key ${JSON.stringify(key)}, whatever the name`, () => {
    for (const name of ["r", ""]) {
      const message = `cannot register shared memory region '${name}' - invalid shm key '${key}'`;
      const register = (): void => new SharedMemoryRegions(true).register(name, key, 0n, 8n);
      assert.throws(register, refusal("invalid_argument", message));
    }
  });
}

for (const key of ["/a/b", "../x", "/a\0b", "/a b", "/ä", "/nereid_missing"]) {
  test(`register() finds no object ${JSON.stringify(key)}`, () => {
    const message = `Unable to open shared memory region: '${key}'`;
    assert.throws(() => new SharedMemoryRegions(true).register("r", key, 0n, 8n), refusal("internal", message));
  });
}

for (const name of ["", "a/b", "a b", "a\nb", "ä"]) {
  test(`register() refuses the name ${JSON.stringify(name)}`, () => {
    using object = new SharedMemoryObject(CONTENT);
    const message = `failed to register shared memory region '${name}': its name may have letters, digits, '_', '.' and '-' only`;
    const regions = new SharedMemoryRegions(true);
    assert.throws(() => regions.register(name, object.key, 0n, 8n), refusal("invalid_argument", message));
  });
}

for (const [offset, byteSize] of [
  [0n, 65n],
  [64n, 1n],
  [4096n, 1n],
  [0n, 2n ** 53n],
  [2n ** 53n, 1n],
  [2n ** 63n, 64n],
  [1n, MAX_UINT64],
  [MAX_UINT64, 1n],
  [MAX_UINT64, MAX_UINT64],
] as const) {
  test(`register() refuses ${byteSize} bytes at ${offset} of an object of 64`, () => {
    using object = new SharedMemoryObject(CONTENT);
    const message = "failed to register shared memory region 'r': invalid args";
    const regions = new SharedMemoryRegions(true);
    assert.throws(() => regions.register("r", object.key, offset, byteSize), refusal("invalid_argument", message));
    assert.deepEqual(regions.systemStatus(""), []);
  });
}

test("register() takes regions up to the limit of bytes, not one more", () => {
  using object = new SharedMemoryObject(MAX_SHARED_MEMORY_REGION_BYTES + 1);
  const regions = new SharedMemoryRegions(true);
  const most = BigInt(MAX_SHARED_MEMORY_REGION_BYTES);
  assert.throws(
    () => regions.register("r", object.key, 0n, most + 1n),
    refusal(
      "invalid_argument",
      `failed to register shared memory region 'r': ${most + 1n} bytes are more than the ${most} of one region`,
    ),
  );
  regions.register("r", object.key, 0n, most);
  assert.equal(regions.find("r").slice(most - 1n, 1n).length, 1);
  regions.unregister("r");
});

test("register() takes regions up to the limit of their number, not one more", () => {
  using object = new SharedMemoryObject(CONTENT);
  const regions = new SharedMemoryRegions(true);
  for (let i = 0; i < MAX_SHARED_MEMORY_REGIONS; i++) regions.register(`r${i}`, object.key, 0n, 8n);
  const more = `failed to register shared memory region 'more': ${MAX_SHARED_MEMORY_REGIONS} regions are registered already, unregister one first`;
  assert.throws(() => regions.register("more", object.key, 0n, 8n), refusal("invalid_argument", more));
  regions.unregister("r7");
  regions.register("more", object.key, 0n, 8n);
  regions.unregister("");
  assert.equal(object.mappings(), 0);
});

test("register() refuses a name that is taken, until it is unregistered", () => {
  using bed = oneRegion();
  const { regions, object } = bed;
  const again = (): void => regions.register("r", object.key, 0n, 8n);
  assert.throws(again, refusal("already_exists", "shared memory region 'r' already in manager"));
  regions.unregister("r");
  again();
  assert.deepEqual(regions.systemStatus("r"), [{ name: "r", key: object.key, offset: 0, byte_size: 8 }]);
});

test("register() and unregister() are refused where clients may not register", () => {
  const regions = new SharedMemoryRegions(false);
  const off = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.";
  assert.throws(() => regions.register("r", "/x", 0n, 8n), refusal("unsupported", off));
  assert.throws(() => regions.unregister(""), refusal("unsupported", off));
  assert.deepEqual(regions.systemStatus(""), []);
});

test("systemStatus() lists regions by name", () => {
  using bed = oneRegion();
  for (const name of ["z", "a"]) bed.regions.register(name, bed.object.key, 0n, 8n);
  assert.deepEqual(
    bed.regions.systemStatus("").map(({ name }) => name),
    ["a", "r", "z"],
  );
  assert.throws(
    () => bed.regions.systemStatus("b"),
    refusal("not_found", "Unable to find system shared memory region: 'b'"),
  );
});

test("cudaStatus() tells a system region from an unknown one", () => {
  using bed = oneRegion();
  assert.deepEqual(bed.regions.cudaStatus(""), []);
  const other = "The region named 'r' is registered as system shared memory, not CUDA shared memory";
  assert.throws(() => bed.regions.cudaStatus("r"), refusal("not_found", other));
  assert.throws(
    () => bed.regions.cudaStatus("x"),
    refusal("not_found", "Unable to find cuda shared memory region: 'x'"),
  );
});

const BEHIND = "Invalid offset for shared memory region: 'r'";
const BEYOND = "Invalid offset + byte size for shared memory region: 'r'";
const OVERFLOW = `Integer overflow detected: byte_size (${MAX_UINT64}) + offset (1) exceeds maximum value (${MAX_UINT64}) for region 'r'`;
for (const [offset, byteSize, message] of [
  [64n, 0n, BEHIND],
  [65n, 1n, BEHIND],
  [2n ** 63n, 8n, BEHIND],
  [MAX_UINT64, 2n, BEHIND],
  [0n, 65n, BEYOND],
  [63n, 2n, BEYOND],
  [1n, 64n, BEYOND],
  [8n, 2n ** 63n, BEYOND],
  [1n, MAX_UINT64, OVERFLOW],
] as const) {
  test(`slice() refuses ${byteSize} bytes at ${offset} of a region of 64`, () => {
    using bed = oneRegion();
    assert.throws(() => bed.regions.find("r").slice(offset, byteSize), refusal("invalid_argument", message));
  });
}

test("slice() reaches every byte, and none is fine too", () => {
  using bed = oneRegion();
  const region = bed.regions.find("r");
  assert.deepEqual([...region.slice(0n, 64n)], [...CONTENT]);
  assert.deepEqual([...region.slice(63n, 1n)], [63]);
  assert.equal(region.slice(63n, 0n).length, 0);
});

test("slice() and writeOutput() do not touch an object that has become too short", () => {
  using bed = oneRegion();
  using memory = useOf(bed.regions);
  const target = memory.target({ region: "r", offset: 0n, byteSize: 8n });
  bed.object.resize(63);
  assert.throws(() => bed.regions.find("r").slice(0n, 1n), refusal("invalid_argument", BEYOND));
  const output = { name: "OUT", datatype: "UINT8", shape: [1], data: Uint8Array.of(1) } as const;
  assert.throws(() => writeOutput(target, output), refusal("invalid_argument", BEYOND));
});

function useOf(regions: SharedMemoryRegions): RequestMemory & Disposable {
  const memory = new RequestMemory(regions);
  return Object.assign(memory, { [Symbol.dispose]: () => memory.release() });
}

test("a region that is unregistered stays, also for new requests, until none uses it any more", () => {
  using bed = oneRegion();
  const { regions, object } = bed;
  const part = { region: "r", offset: 4n, byteSize: 2n };
  const [first, second] = [new RequestMemory(regions), new RequestMemory(regions)];
  const bytes = first.bytes(part);
  regions.unregister("r");
  const target = second.target(part);
  const again = (): void => regions.register("r", object.key, 0n, 8n);
  assert.throws(again, refusal("already_exists", "shared memory region 'r' already in manager"));
  assert.deepEqual([...bytes], [4, 5]);
  first.release();
  assert.deepEqual([regions.systemStatus("").length, object.mappings()], [1, 1]);
  writeOutput(target, { name: "OUT", datatype: "UINT8", shape: [2], data: Uint8Array.of(70, 71) });
  second.release();
  assert.deepEqual([regions.systemStatus("").length, object.mappings()], [0, 0]);
  assert.throws(() => first.bytes(part), refusal("not_found", "Unable to find shared memory region: 'r'"));
  assert.deepEqual([...object.read().subarray(3, 7)], [3, 70, 71, 6]);
  again();
});

test("detached() copies tensors over a region and no others", () => {
  using bed = oneRegion();
  using memory = useOf(bed.regions);
  const data = memory.bytes({ region: "r", offset: 8n, byteSize: 2n });
  const shared = { name: "X", datatype: "UINT8", shape: [2], data } as const;
  const copy = memory.detached(shared);
  assert.notEqual(copy.data.buffer, data.buffer);
  assert.deepEqual([...copy.data], [8, 9]);
  const own = { ...shared, data: Uint8Array.of(1, 2) };
  assert.equal(memory.detached(own), own);
});

test("writeOutput() takes an output that fills its place, and refuses one byte more", () => {
  using bed = oneRegion();
  using memory = useOf(bed.regions);
  const target = memory.target({ region: "r", offset: 62n, byteSize: 2n });
  const output = { name: "OUT", datatype: "UINT8", shape: [2], data: Uint8Array.of(90, 91) } as const;
  writeOutput(target, output);
  assert.deepEqual([...bed.object.read().subarray(61)], [61, 90, 91]);
  const message =
    "shared memory size specified with the request for output 'OUT' (2 bytes) should be at least 3 bytes to hold the results";
  assert.throws(() => writeOutput(target, { ...output, data: new Uint8Array(3) }), refusal("internal", message));
});

test("a thousand times registered, used and unregistered, nothing stays mapped", () => {
  using object = new SharedMemoryObject(CONTENT);
  const regions = new SharedMemoryRegions(true);
  for (let i = 0; i < 1000; i++) {
    regions.register("r", object.key, 0n, 64n);
    const memory = new RequestMemory(regions);
    assert.equal(memory.bytes({ region: "r", offset: 0n, byteSize: 64n })[1], 1);
    memory.release();
    regions.unregister("r");
  }
  assert.equal(object.mappings(), 0);
});
