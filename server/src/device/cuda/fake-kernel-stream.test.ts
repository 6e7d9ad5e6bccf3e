import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeKernelStream } from "./fake-kernel-stream.ts";

const SPEC = { source: "add/add.cu", name: "add", defines: {} };

test("launch() writes down what was asked for", () => {
  const stream = new FakeKernelStream();
  stream.launch(stream.kernel(SPEC), [2, 1, 1], [256, 1, 1], 0, [{ i32: 3 }]);
  assert.deepEqual(stream.launches, [
    { spec: SPEC, grid: [2, 1, 1], block: [256, 1, 1], sharedBytes: 0, args: [{ i32: 3 }] },
  ]);
});

for (const [name, grid, block, shared] of [
  ["an empty grid", [0, 1, 1], [32, 1, 1], 0],
  ["a grid too high", [1, 65536, 1], [32, 1, 1], 0],
  ["too many threads", [1, 1, 1], [32, 32, 2], 0],
  ["too much shared memory", [1, 1, 1], [32, 1, 1], 300_000],
] as const) {
  test(`launch() refuses ${name}`, () => {
    const stream = new FakeKernelStream();
    assert.throws(() => stream.launch(stream.kernel(SPEC), grid, block, shared, []), /add: no device takes/);
  });
}
