import assert from "node:assert/strict";
import { test } from "node:test";
import { promptPositions, readGrids } from "./image-positions.ts";

const FIRST_ROW = 100;

test("promptPositions() counts text on in all three lists", () => {
  assert.deepEqual([...promptPositions(Int32Array.of(5, 6, 7), FIRST_ROW, [])], [0, 1, 2, 0, 1, 2, 0, 1, 2]);
});

test("promptPositions() lays images out by rows and columns, and goes on behind their longer side", () => {
  const ids = Int32Array.of(5, 100, 101, 102, 103, 104, 105, 6, 106, 7);
  const positions = promptPositions(ids, FIRST_ROW, [
    { rows: 2, columns: 3 },
    { rows: 1, columns: 1 },
  ]);
  assert.deepEqual([...positions.subarray(0, 10)], [0, 1, 1, 1, 1, 1, 1, 4, 5, 6]);
  assert.deepEqual([...positions.subarray(10, 20)], [0, 1, 1, 1, 2, 2, 2, 4, 5, 6]);
  assert.deepEqual([...positions.subarray(20)], [0, 1, 2, 3, 1, 2, 3, 4, 5, 6]);
});

test("readGrids() finds from the number of tokens how many patches became one", () => {
  const grids = readGrids(Int32Array.of(1, 4, 6, 1, 2, 2), [{ lengths: [6] }, { lengths: [4] }]);
  assert.deepEqual(grids, [[{ rows: 2, columns: 3 }], [{ rows: 2, columns: 2 }]]);
});

for (const { name, values, length, expected } of [
  { name: "too few numbers", values: [1, 4], length: 1, expected: /has 2 numbers, expected frames, rows and columns/ },
  {
    name: "other numbers of tokens",
    values: [1, 4, 6],
    length: 5,
    expected: /says 1 x 4 x 6 patches of an image with 5/,
  },
  { name: "several frames", values: [2, 4, 4], length: 8, expected: /says 2 x 4 x 4 patches/ },
  { name: "no patches", values: [1, 0, 4], length: 4, expected: /says 1 x 0 x 4 patches/ },
  { name: "rows that are no squares", values: [1, 1, 4], length: 1, expected: /says 1 x 1 x 4 patches/ },
]) {
  test(`readGrids() refuses ${name}`, () => {
    assert.throws(() => readGrids(Int32Array.from(values), [{ lengths: [length] }]), expected);
  });
}
