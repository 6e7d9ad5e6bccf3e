import assert from "node:assert/strict";
import { test } from "node:test";
import { EMPTY_CONFIG } from "../../../../tests/fakes/python-models.ts";
import { describeModel } from "./describe-model.ts";

const BASE = { max_batch_size: 0, input: [], output: [] };

test("`describeModel()` adds the batch dimension when the model batches", () => {
  const json = JSON.stringify({
    ...BASE,
    max_batch_size: 3,
    input: [{ name: "P", data_type: "TYPE_FP32", dims: [2], optional: true }],
    output: [{ name: "R", data_type: "TYPE_STRING", dims: [-1] }],
    dynamic_batching: {},
    model_transaction_policy: { decoupled: true },
  });
  assert.deepEqual(describeModel(json, EMPTY_CONFIG), {
    inputs: [{ name: "P", dataType: "TYPE_FP32", dims: [-1, 2], optional: true }],
    outputs: [{ name: "R", dataType: "TYPE_STRING", dims: [-1, -1] }],
    canBatch: true,
    addsTensors: true,
    maxBatchSize: 3,
    dynamicBatching: true,
    decoupled: true,
  });
});

const tensor = { name: "P", data_type: "TYPE_FP32", dims: [2] };
const WRONG: readonly (readonly [string, unknown, RegExp])[] = [
  ["the configuration is a list", [], /must be an object, got \[\]/],
  [
    "max_batch_size is negative",
    { ...BASE, max_batch_size: -1 },
    /max_batch_size must be a non-negative integer, got -1/,
  ],
  ["input is no list", { ...BASE, input: {} }, /input must be a list, got \{\}/],
  ["a name is missing", { ...BASE, input: [{ ...tensor, name: 1 }] }, /input\[0\]\.name must be a string, got 1/],
  [
    "a type is unknown",
    { ...BASE, output: [{ ...tensor, data_type: "FP32" }] },
    /output\[0\]\.data_type must be a data type/,
  ],
  [
    "dims is no list",
    { ...BASE, output: [{ ...tensor, dims: ["2"] }] },
    /output\[0\]\.dims must be a list of integers/,
  ],
];
for (const [what, completed, expected] of WRONG) {
  test(`\`describeModel()\` names the place when ${what}`, () => {
    assert.throws(() => describeModel(JSON.stringify(completed), EMPTY_CONFIG), expected);
  });
}
