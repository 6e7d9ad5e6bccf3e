import assert from "node:assert/strict";
import { test } from "node:test";
import { floatsOf, floatTensor, loadInstance } from "../../../../tests/fakes/run-instance.ts";
import { type PoolingMode, pool } from "./pool.ts";
import { createPoolingBackend } from "./pooling-backend.ts";

const STATES = { values: Float32Array.of(1, -2, 3, 4, 9, 9, 5, 6, 0, 0, 9, 9), numRows: 2, length: 3, width: 2 };
const MASK = Uint8Array.of(1, 1, 0, 1, 1, 0);

for (const [mode, expected] of [
  ["mean", [2, 1, 2.5, 3]],
  ["cls", [1, -2, 5, 6]],
  ["max", [3, 4, 5, 6]],
  ["last", [3, 4, 0, 0]],
] as const satisfies readonly (readonly [PoolingMode, readonly number[]])[]) {
  test(`pool() by ${mode} leaves padding out`, () => {
    assert.deepEqual([...pool({ ...STATES, mask: MASK }, mode, false)], expected);
  });
}

test("pool() makes vectors of length 1, and zeros of texts without tokens", () => {
  const vectors = pool({ ...STATES, mask: Uint8Array.of(1, 1, 1, 0, 0, 0) }, "mean", true);
  assert.ok(Math.abs(Math.hypot(vectors[0] ?? 0, vectors[1] ?? 0) - 1) < 1e-6);
  assert.deepEqual([...vectors.subarray(2)], [0, 0]);
});

const CONFIG = `name: "p" backend: "pooling" max_batch_size: 4
  input [ { name: "last_hidden_state" data_type: TYPE_FP32 dims: [ -1, 2 ] }, { name: "attention_mask" data_type: TYPE_INT64 dims: [ -1 ] } ]
  output [ { name: "embedding" data_type: TYPE_FP32 dims: [ 2 ] } ]`;
const mask = (shape: readonly number[], values: readonly bigint[]) =>
  ({
    name: "attention_mask",
    datatype: "INT64",
    shape,
    data: new Uint8Array(BigInt64Array.from(values).buffer),
  }) as const;

test("the backend `pooling` gives one vector a row", async () => {
  await using loaded = await loadInstance(createPoolingBackend(), CONFIG, "/none");
  const states = floatTensor("last_hidden_state", [2, 3, 2], STATES.values);
  const outputs = await loaded.run([states, mask([2, 3], [1n, 1n, 0n, 1n, 1n, 0n])]);
  const vector = floatsOf(outputs.get("embedding"));
  assert.deepEqual(outputs.get("embedding")?.shape, [2, 2]);
  assert.ok(Math.abs((vector[0] ?? 0) - 2 / Math.sqrt(5)) < 1e-6);
});

test("the backend `pooling` refuses a mask of another length and unknown modes", async () => {
  await using loaded = await loadInstance(createPoolingBackend(), CONFIG, "/none");
  const states = floatTensor("last_hidden_state", [1, 3, 2], STATES.values.slice(0, 6));
  await assert.rejects(
    loaded.run([states, mask([1, 2], [1n, 1n])]),
    /of \[1, 3, 2\] and 'attention_mask' of \[1, 2\] do not go together/,
  );
  const wrong = `${CONFIG} parameters { key: "pooling" value { string_value: "median" } }`;
  await assert.rejects(
    loadInstance(createPoolingBackend(), wrong, "/none"),
    /expected parameters 'pooling' to be mean, cls, max, last/,
  );
});
