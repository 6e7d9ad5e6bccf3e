import assert from "node:assert/strict";
import { test } from "node:test";
import { CpuBuffer } from "../../src/device/cpu/cpu-buffer.ts";
import { CpuDevice } from "../../src/device/cpu/cpu-device.ts";
import { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordExpertLinear } from "./expert-linear.ggml.ts";
import { expertLinearRef } from "./expert-linear.ref.ts";

const SHAPE = { inputs: 32, outputs: 20, numChosen: 2 };
const NUM_EXPERTS = 4;

for (const numTokens of [1, 7, 40]) {
  for (const rowsPerToken of [1, SHAPE.numChosen]) {
    test(`recordExpertLinear() agrees with the reference for ${numTokens} tokens of ${rowsPerToken} rows`, async () => {
      const x = randomFloats(numTokens * rowsPerToken * SHAPE.inputs, 1);
      const weight = randomFloats(NUM_EXPERTS * SHAPE.outputs * SHAPE.inputs, 2);
      const ids = Int32Array.from({ length: numTokens * 2 }, (_, i) => (i % 2 === 0 ? i % 3 : 3));
      const device = new CpuDevice({ numThreads: 2 });
      const buffer = new CpuBuffer(device, [{ type: "f32", shape: [NUM_EXPERTS, SHAPE.outputs, SHAPE.inputs] }]);
      const graph = new CpuGraph(device);
      const [experts] = buffer.tensors;
      assert.ok(experts);
      buffer.write(experts, weight);
      graph.begin(64);
      const result = recordExpertLinear(graph, {
        x: graph.input("f32", [numTokens * rowsPerToken, SHAPE.inputs], x),
        weight: experts,
        ids: graph.input("i32", [numTokens, 2], ids),
      });
      graph.output(result);
      await graph.run();
      const actual = new Float32Array(numTokens * 2 * SHAPE.outputs);
      graph.read(result, actual);
      graph.close();
      buffer.close();
      await device.close();
      assert.ok(maxDifference(actual, expertLinearRef({ ...SHAPE, x, weight, ids, rowsPerToken })) < 1e-4);
    });
  }
}

test("recordExpertLinear() refuses rows that are neither one nor all of a token's", async () => {
  const run = runOp((graph) => {
    const weight = graph.input("f32", [4, 8], new Float32Array(32));
    return recordExpertLinear(graph, {
      x: graph.input("f32", [3, 8], new Float32Array(24)),
      weight: { ...weight, shape: [2, 2, 8] },
      ids: graph.input("i32", [2, 2], new Int32Array(4)),
    });
  });
  await assert.rejects(run, /expertLinear x: 3 rows for 2 tokens of 2 experts/);
});
