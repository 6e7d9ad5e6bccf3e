import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeRequest, int32, int32Values } from "../../../../tests/fakes/requests.ts";
import { parseModelConfigText } from "../../config/model/model-config.ts";
import type { BatchInputKind } from "../../core/model-config.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { BackendRequest } from "../backend.ts";
import { computedInputs, layEndToEnd, raggedPlan, scatterOutput } from "./ragged-batch.ts";

/** Rows are the first dimension of X. */
function asked(shape: readonly number[], values: readonly number[]): BackendRequest {
  return {
    request: fakeRequest([int32("X", [...shape], [...values])]),
    batchSize: shape[0] ?? 1,
    outputNames: ["Y"],
    respond: () => assert.fail("nothing is answered here"),
    fail: () => assert.fail("nothing fails here"),
    drained: () => Promise.resolve(),
  };
}

const REQUESTS = [asked([2, 1, 3], [1, 2, 3, 4, 5, 6]), asked([1, 2, 1], [7, 8]), asked([1, 1, 0], [])];

function computed(kind: BatchInputKind, type = "TYPE_INT32"): Tensor[] {
  const text = `name: "m" max_batch_size: 4 batch_input [ { kind: ${kind} target_name: [ "N" ] data_type: ${type} source_input: "X" } ]`;
  return computedInputs(raggedPlan(parseModelConfigText(text, "config.pbtxt")), REQUESTS);
}

const KINDS: readonly (readonly [BatchInputKind, readonly number[], readonly number[]])[] = [
  ["BATCH_ELEMENT_COUNT", [3], [6, 2, 0]],
  ["BATCH_ACCUMULATED_ELEMENT_COUNT", [3], [6, 8, 8]],
  ["BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", [4], [0, 6, 8, 8]],
  ["BATCH_MAX_ELEMENT_COUNT_AS_SHAPE", [6], [0, 0, 0, 0, 0, 0]],
  ["BATCH_ITEM_SHAPE", [4, 2], [1, 3, 1, 3, 2, 1, 1, 0]],
  ["BATCH_ITEM_SHAPE_FLATTEN", [8], [1, 3, 1, 3, 2, 1, 1, 0]],
];
for (const [kind, shape, values] of KINDS) {
  test(`computedInputs() makes ${kind} of every request's input`, () => {
    assert.deepEqual(computed(kind), [int32("N", [...shape], [...values])]);
  });
}

test("computedInputs() makes floats where the configuration says so", () => {
  const [tensor] = computed("BATCH_ELEMENT_COUNT", "TYPE_FP32");
  assert.equal(tensor?.datatype, "FP32");
  assert.deepEqual([...new Float32Array(tensor?.data.slice().buffer ?? new ArrayBuffer(0))], [6, 2, 0]);
});

test("layEndToEnd() makes one dimension of requests of any shapes, of a lone one without a copy", () => {
  const [first, second] = REQUESTS.map(({ request }) => request.inputs[0] as Tensor);
  assert.ok(first !== undefined && second !== undefined);
  const joined = layEndToEnd(first, REQUESTS);
  assert.deepEqual([joined.shape, int32Values(joined)], [[8], [1, 2, 3, 4, 5, 6, 7, 8]]);
  const alone = layEndToEnd(second, REQUESTS.slice(1, 2));
  assert.equal(alone.data, second.data);
  assert.deepEqual(alone.shape, [2]);
});

test("layEndToEnd() refuses requests of other inputs and datatypes", () => {
  const first = int32("X", [1], [1]);
  assert.throws(() => layEndToEnd({ ...first, name: "W" }, REQUESTS), /different inputs 'W'/);
  assert.throws(() => layEndToEnd({ ...first, datatype: "FP32" }, REQUESTS), /different inputs 'X'/);
});

test("scatterOutput() gives each request the shape of its input, and refuses an output that is too short", () => {
  const flat = int32("Y", [8], [10, 20, 30, 40, 50, 60, 70, 80]);
  const shares = scatterOutput(flat, { source: "X", dims: [-1, -1, -1] }, REQUESTS);
  assert.deepEqual(
    shares.map((share) => [share.shape, int32Values(share)]),
    [
      [
        [2, 1, 3],
        [10, 20, 30, 40, 50, 60],
      ],
      [
        [1, 2, 1],
        [70, 80],
      ],
      [[1, 1, 0], []],
    ],
  );
  const fixed = scatterOutput(flat, { source: "X", dims: [-1, 2] }, REQUESTS);
  assert.deepEqual(
    fixed.map(({ shape }) => shape),
    [
      [2, 2],
      [1, 2],
      [1, 2],
    ],
  );
  assert.throws(() => scatterOutput(int32("Y", [3], [1, 2, 3]), { source: "X", dims: [-1, -1, -1] }, REQUESTS), {
    message: /a share of shape \[2,1,3\] does not fit in the shape \[3\]/,
  });
});
