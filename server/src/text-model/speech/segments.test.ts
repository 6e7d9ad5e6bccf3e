import assert from "node:assert/strict";
import { test } from "node:test";
import { splitSegments } from "./segments.ts";

/** Timestamps begin at 100. */
const FIRST = 100;
const split = (...output: readonly number[]) => {
  const { segments, advance } = splitSegments(Int32Array.from(output), FIRST, 50);
  return { advance, segments: segments.map(({ start, end, tokens }) => [start, end, [...tokens]]) };
};

test("splitSegments() cuts between pairs, and the next window begins at the last", () => {
  const expected = {
    advance: 30,
    segments: [
      [0, 10, [1, 2]],
      [10, 30, [3]],
    ],
  };
  assert.deepEqual(split(100, 1, 2, 110, 110, 3, 130, 130, 4), expected);
});

test("splitSegments() takes a lone timestamp at the end for the end of all speech", () => {
  assert.deepEqual(split(100, 1, 110, 112, 2, 140), {
    advance: 50,
    segments: [
      [0, 10, [1]],
      [12, 40, [2]],
    ],
  });
  assert.deepEqual(split(105, 1, 2, 140), { advance: 50, segments: [[0, 40, [1, 2]]] });
});

test("splitSegments() gives one segment without timestamps, and none without text", () => {
  assert.deepEqual(split(1, 2), { advance: 50, segments: [[0, 50, [1, 2]]] });
  assert.deepEqual(split(100), { advance: 50, segments: [] });
  assert.deepEqual(split(), { advance: 50, segments: [] });
});
