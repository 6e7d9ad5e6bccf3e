import assert from "node:assert/strict";
import { test } from "node:test";
import { randomFloats, runOp } from "../testing/run-op.ts";
import { recordAdd } from "./add.ggml.ts";
import { addRef } from "./add.ref.ts";

test("recordAdd() gives the sums of the reference", async () => {
  const a = randomFloats(5 * 12, 10);
  const b = randomFloats(5 * 12, 11);
  const actual = await runOp((graph) =>
    recordAdd(graph, { a: graph.input("f32", [5, 12], a), b: graph.input("f32", [5, 12], b) }),
  );
  assert.deepEqual(actual, addRef(a, b));
});

test("recordAdd() refuses to broadcast", async () => {
  const run = runOp((graph) =>
    recordAdd(graph, {
      a: graph.input("f32", [2, 4], new Float32Array(8)),
      b: graph.input("f32", [1, 4], new Float32Array(4)),
    }),
  );
  await assert.rejects(run, /add b: expected f32\[2, 4\], got f32\[1, 4\]/);
});
