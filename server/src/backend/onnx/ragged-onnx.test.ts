import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { createTestRepository } from "../../../../tests/fakes/model-repository.ts";
import { model, node, ONNX_TYPE } from "../../../../tests/fakes/onnx-writer.ts";
import { collect, fakeRequest, int32, int32Values } from "../../../../tests/fakes/requests.ts";
import { createOnnxBackend } from "./onnx-backend.ts";

const { INT32 } = ONNX_TYPE;

/** OUT is twice X, COUNTS what the server says of X. */
const DOUBLE = model({
  nodes: [node("Add", ["X", "X"], ["OUT"]), node("Identity", ["N"], ["COUNTS"])],
  inputs: [
    ["X", INT32, ["n"]],
    ["N", INT32, ["k"]],
  ],
  outputs: [
    ["OUT", INT32, ["n"]],
    ["COUNTS", INT32, ["k"]],
  ],
});

const CONFIG = `backend: "onnxruntime"
max_batch_size: 8
dynamic_batching { preferred_batch_size: [ 3 ] max_queue_delay_microseconds: 30000000 }
input [ { name: "X" data_type: TYPE_INT32 dims: [ -1 ] allow_ragged_batch: true } ]
output [
  { name: "OUT" data_type: TYPE_INT32 dims: [ -1 ] },
  { name: "COUNTS" data_type: TYPE_INT32 dims: [ 1 ] reshape { shape: [ ] } }
]
batch_input [ { kind: BATCH_ELEMENT_COUNT target_name: "N" data_type: TYPE_INT32 source_input: "X" } ]
batch_output [ { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "OUT" source_input: "X" } ]`;

test("requests of three lengths run as one batch, each answered in its own shape", async () => {
  const onnx = createOnnxBackend();
  await using repository = createTestRepository({ "m/config.pbtxt": CONFIG, "m/1/.keep": "" }, [onnx]);
  writeFileSync(join(repository.path, "m/1/model.onnx"), DOUBLE);
  await repository.manager.load("m", {});
  const served = repository.registry.lookUp("m", "");
  const rows = [[1, 2, 3], [4], [5, 6]];
  const answers = await Promise.all(
    rows.map((row) => collect(served.infer(fakeRequest([int32("X", [1, row.length], row)])))),
  );
  const tensors = answers.map(([response]) =>
    Object.fromEntries((response?.outputs ?? []).map((output) => [output.name, [output.shape, int32Values(output)]])),
  );
  assert.deepEqual(tensors, [
    {
      OUT: [
        [1, 3],
        [2, 4, 6],
      ],
      COUNTS: [[1, 1], [3]],
    },
    { OUT: [[1, 1], [8]], COUNTS: [[1, 1], [1]] },
    {
      OUT: [
        [1, 2],
        [10, 12],
      ],
      COUNTS: [[1, 1], [2]],
    },
  ]);
  assert.equal(served.statistics.snapshot("m", "1").execution_count, 1);
});
