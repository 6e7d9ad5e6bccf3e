import assert from "node:assert/strict";
import { test } from "node:test";
import type { CudaDriver } from "../../native/cuda/cuda.ts";
import type { CudaFunctions } from "../../native/cuda/functions.ts";
import { TensorMaps } from "./tensor-maps.ts";

const MATRIX = { address: 4096n, rowBytes: 512, numRows: 40, pieceRows: 64 };
const STREAM = 7n;

/** A driver that writes down what it is asked for; its memory is the host's. */
function fakeDriver() {
  const encoded: unknown[][] = [];
  const copied: bigint[][] = [];
  const freed: bigint[] = [];
  const memory: Uint8Array[] = [];
  const take = (out: BigUint64Array, numBytes: bigint): number => {
    memory.push(new Uint8Array(Number(numBytes)));
    out[0] = 0x10000n * BigInt(memory.length);
    return 0;
  };
  const give = (address: bigint): number => {
    freed.push(address);
    return 0;
  };
  const calls = {
    allocate: take,
    allocateHost: take,
    free: give,
    freeHost: give,
    encodeTensorMap: (...args: unknown[]) => {
      encoded.push(args);
      return 0;
    },
    copyToDevice: (...args: bigint[]) => {
      copied.push(args);
      return 0;
    },
  } as unknown as CudaFunctions;
  const driver: CudaDriver = { path: "fake", version: 13000, calls, check: (status) => assert.equal(status, 0) };
  return { driver, encoded, copied, freed };
}

test("place() encodes and copies a tensor map once, and gives each a place of its own", () => {
  const { driver, encoded, copied } = fakeDriver();
  const maps = new TensorMaps(driver, STREAM);
  const first = maps.place(MATRIX);
  const second = maps.place({ ...MATRIX, numRows: 8 });
  assert.equal(second, first + 128n);
  assert.equal(maps.place({ ...MATRIX }), first);
  assert.deepEqual([encoded.length, copied.length], [2, 2]);
  const [host, type, rank, address, sizes, strides, box] = encoded[0] ?? [];
  assert.deepEqual([type, rank, address], [0, 2, 4096n]);
  assert.deepEqual([sizes, strides], [BigUint64Array.of(512n, 40n), BigUint64Array.of(512n)]);
  assert.deepEqual(box, Uint32Array.of(128, 64));
  assert.deepEqual(copied[0], [first, host, 128n, STREAM]);
});

test("place() goes on behind a full page, and close() frees all pages", () => {
  const { driver, freed } = fakeDriver();
  const maps = new TensorMaps(driver, STREAM);
  const places = Array.from({ length: 600 }, (_, i) => maps.place({ ...MATRIX, numRows: i + 1 }));
  assert.equal(new Set(places).size, 600);
  for (const place of places) assert.equal(place % 64n, 0n);
  maps.close();
  assert.equal(new Set(freed).size, 4);
});

test("place() refuses what TMA cannot read", () => {
  const maps = new TensorMaps(fakeDriver().driver, STREAM);
  assert.throws(() => maps.place({ ...MATRIX, rowBytes: 520 }), /a multiple of 16 bytes, got 4096 and 520/);
  assert.throws(() => maps.place({ ...MATRIX, address: 4100n }), /a multiple of 16 bytes, got 4100 and 512/);
});
