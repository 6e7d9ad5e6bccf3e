import assert from "node:assert/strict";
import { test } from "node:test";
import type { CudaDriver } from "../../native/cuda/cuda.ts";
import type { CudaFunctions } from "../../native/cuda/functions.ts";
import { TensorMaps } from "./tensor-maps.ts";

const MATRIX = { address: 4096n, rowBytes: 512, numRows: 40, pieceRows: 64 };

/** A driver that writes down what it is asked for. */
function fakeDriver(): { readonly driver: CudaDriver; readonly asked: unknown[][] } {
  const asked: unknown[][] = [];
  const encodeTensorMap: CudaFunctions["encodeTensorMap"] = (...args) => {
    asked.push(args);
    return 0;
  };
  const calls = { encodeTensorMap } as CudaFunctions;
  return { driver: { path: "fake", version: 13000, calls, check: (status) => assert.equal(status, 0) }, asked };
}

test("put() encodes a tensor map once, and gives each a place at a multiple of 64", () => {
  const { driver, asked } = fakeDriver();
  const maps = new TensorMaps(driver, 2);
  const first = maps.put(0, MATRIX);
  const second = maps.put(1, { ...MATRIX, numRows: 8 });
  assert.equal(first % 64n, 0n);
  assert.equal(second, first + 128n);
  assert.equal(maps.put(1, MATRIX), second);
  assert.equal(asked.length, 2);
  const [place, type, rank, address, sizes, strides, box] = asked[0] ?? [];
  assert.deepEqual([place, type, rank, address], [first, 0, 2, 4096n]);
  assert.deepEqual([sizes, strides], [BigUint64Array.of(512n, 40n), BigUint64Array.of(512n)]);
  assert.deepEqual(box, Uint32Array.of(128, 64));
});

test("put() refuses what TMA cannot read, and more tensor maps than there is room for", () => {
  const maps = new TensorMaps(fakeDriver().driver, 2);
  assert.throws(() => maps.put(0, { ...MATRIX, rowBytes: 520 }), /a multiple of 16 bytes, got 4096 and 520/);
  assert.throws(() => maps.put(0, { ...MATRIX, address: 4100n }), /a multiple of 16 bytes, got 4100 and 512/);
  assert.throws(() => maps.put(2, MATRIX), /more than 2 tensor maps/);
});
