import assert from "node:assert/strict";
import { test } from "node:test";
import { randomFloats, runOp } from "../testing/run-op.ts";
import { recordConcat } from "./concat.ggml.ts";
import { concatRef } from "./concat.ref.ts";

test("recordConcat() gives the rows of the reference", async () => {
  const a = randomFloats(5 * 12, 10);
  const b = randomFloats(5 * 8, 11);
  const actual = await runOp((graph) =>
    recordConcat(graph, { a: graph.input("f32", [5, 12], a), b: graph.input("f32", [5, 8], b) }),
  );
  assert.deepEqual(actual, concatRef(a, b, 5));
});

test("recordConcat() refuses other numbers of rows", async () => {
  const run = runOp((graph) =>
    recordConcat(graph, {
      a: graph.input("f32", [2, 4], new Float32Array(8)),
      b: graph.input("f32", [1, 4], new Float32Array(4)),
    }),
  );
  await assert.rejects(run, /concat b: expected f32\[2, \*\], got f32\[1, 4\]/);
});
