import assert from "node:assert/strict";
import { test } from "node:test";
import { convertElements, type FloatType } from "../../src/device/cpu/convert-elements.ts";
import { openGgml } from "../../src/native/ggml/ggml.ts";
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

/** Rounded to 8 bits per row of 32 (256 with the K types), an activation is off by up to half a step of its block. */
const BLOCK_TYPES = ["q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K"] as const;

/**
 * Error bound of an output. Each activation is off by half of its block's largest / 127 and by the FP16 rounding of the
 * scale, times its weight. Minima of blocks are multiplied by sums of activations, which are FP16 as well.
 */
function roundingBounds(x: Float32Array, weight: Float32Array, inputs: number, block: number): Float64Array {
  const outputs = weight.length / inputs;
  const bounds = new Float64Array((x.length / inputs) * outputs);
  const largest = new Float32Array(x.length / block); // inputs are whole blocks
  for (const [i, value] of x.entries()) {
    const at = Math.floor(i / block);
    largest[at] = Math.max(largest[at] ?? 0, Math.abs(value));
  }
  for (const [i] of bounds.entries()) {
    const first = Math.floor(i / outputs) * inputs;
    for (let j = 0; j < inputs; j++) {
      const off = (largest[Math.floor((first + j) / block)] ?? 0) / 254 + Math.abs(x[first + j] ?? 0) * 2 ** -10;
      bounds[i] = (bounds[i] ?? 0) + off * Math.abs(weight[(i % outputs) * inputs + j] ?? 0);
    }
  }
  return bounds;
}

for (const type of BLOCK_TYPES) {
  for (const [rows, inputs, outputs] of [
    [1, 512, 96],
    [5, 256, 64],
    [33, 256, 40],
  ] as const) {
    test(`recordLinear() agrees with the reference: ${rows} rows, ${inputs} -> ${outputs}, ${type}`, async () => {
      const ggml = openGgml();
      const x = randomFloats(rows * inputs, 16);
      const stored = convertElements(ggml, "f32", type, new Uint8Array(randomFloats(outputs * inputs, 17).buffer));
      const weight = new Float32Array(convertElements(ggml, type, "f32", stored).buffer);
      const actual = await runOp((graph) =>
        recordLinear(graph, {
          x: graph.input("f32", [rows, inputs], x),
          weight: graph.input(type, [outputs, inputs], stored),
        }),
      );
      const expected = linearRef({ x, weight, inputs });
      const bounds = roundingBounds(x, weight, inputs, type.endsWith("K") ? 256 : 32);
      const shares = bounds.map((bound, i) => Math.abs((actual[i] ?? Number.NaN) - (expected[i] ?? 0)) / bound);
      assert.equal(actual.length, rows * outputs);
      assert.ok(
        shares.every((share) => share <= 1),
        `an output is off by ${Math.max(...shares)} of its bound`,
      );
      // Roundings are independent, so that they nearly cancel: a wrong scale or order would not.
      const mean = shares.reduce((sum, share) => sum + share, 0) / shares.length;
      assert.ok(mean < 0.15, `outputs are off by ${mean} of their bounds on average`);
    });
  }
}

test("a graph refuses block types whose rows are not whole blocks", async () => {
  const run = runOp((graph) => graph.input("q8_0", [2, 48], new Uint8Array(102)));
  await assert.rejects(run, /q8_0: expected rows of a multiple of 32, got 48/);
});

test("recordLinear() refuses a weight of another width before ggml sees it", async () => {
  const run = runOp((graph) =>
    recordLinear(graph, {
      x: graph.input("f32", [1, 4], new Float32Array(4)),
      weight: graph.input("f32", [2, 3], new Float32Array(6)),
    }),
  );
  await assert.rejects(run, /linear weight: expected f32\|f16\|bf16\|.*\[\*, 4\], got f32\[2, 3\]/);
});
