import assert from "node:assert/strict";
import { test } from "node:test";
import { patchPositions } from "./patch-positions.ts";

test("patchPositions() goes through squares of merged patches, image by image", () => {
  const first = [0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 2, 0, 0, 3, 0, 1, 2, 0, 1, 3];
  const second = [1, 0, 0, 1, 0, 1, 1, 1, 0, 1, 1, 1];
  const grids = [
    [1, 2, 4],
    [1, 2, 2],
  ] as const;
  assert.deepEqual([...patchPositions(grids, 2)], [...first, ...second]);
});
