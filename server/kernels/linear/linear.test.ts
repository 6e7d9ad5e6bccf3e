import assert from "node:assert/strict";
import { test } from "node:test";
import { convertElements, type FloatType } from "../../src/device/cpu/convert-elements.ts";
import { openGgml } from "../../src/native/ggml.ts";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordLinear } from "./linear.ggml.ts";
import { linearRef } from "./linear.ref.ts";

const BOUNDS: readonly (readonly [FloatType, number])[] = [
  ["f32", 2e-5],
  ["f16", 2e-2],
  ["bf16", 1e-1],
];

function asType(type: FloatType, values: Float32Array): { data: Float32Array | Uint16Array; widened: Float32Array } {
  if (type === "f32") return { data: values, widened: values };
  const ggml = openGgml();
  const bytes = convertElements(ggml, "f32", type, new Uint8Array(values.buffer));
  const widened = new Float32Array(convertElements(ggml, type, "f32", bytes).buffer);
  return { data: new Uint16Array(bytes.buffer), widened };
}

for (const [type, bound] of BOUNDS) {
  for (const [rows, inputs, outputs] of [
    [1, 384, 640],
    [3, 64, 7],
    [37, 96, 128],
  ] as const) {
    test(`recordLinear() agrees with the reference: ${rows} rows, ${inputs} -> ${outputs}, ${type}`, async () => {
      const x = randomFloats(rows * inputs, 6);
      const weight = asType(type, randomFloats(outputs * inputs, 7));
      const bias = randomFloats(outputs, 8);
      const actual = await runOp((graph) =>
        recordLinear(graph, {
          x: graph.input("f32", [rows, inputs], x),
          weight: graph.input(type, [outputs, inputs], weight.data),
          bias: graph.input("f32", [outputs], bias),
        }),
      );
      const expected = linearRef({ x, weight: weight.widened, bias, inputs });
      assert.ok(maxDifference(actual, expected) < bound);
    });
  }
}

test("recordLinear() refuses a weight of another width before ggml sees it", async () => {
  const run = runOp((graph) =>
    recordLinear(graph, {
      x: graph.input("f32", [1, 4], new Float32Array(4)),
      weight: graph.input("f32", [2, 3], new Float32Array(6)),
    }),
  );
  await assert.rejects(run, /linear weight: expected f32\|f16\|bf16\[\*, 4\], got f32\[2, 3\]/);
});
