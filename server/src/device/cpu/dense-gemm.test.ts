import assert from "node:assert/strict";
import { after, test } from "node:test";
import { linearRef } from "../../../kernels/linear/linear.ref.ts";
import { maxDifference, randomFloats } from "../../../kernels/testing/run-op.ts";
import { CpuDevice } from "./cpu-device.ts";
import { CpuGraph } from "./cpu-graph.ts";
import type { CpuTensor } from "./cpu-tensor.ts";
import { DenseGemms } from "./dense-gemm.ts";

const device = new CpuDevice({ numThreads: 2 });
device.useDenseGemms();
after(() => device.close());

interface Sizes {
  readonly rows: number;
  readonly inputs: number;
  readonly outputs: number;
}

/** x . weight^T, recorded behind a sum, so that `x` is a result of the graph. */
async function multiply(graph: CpuGraph, { rows, inputs, outputs }: Sizes, x: Float32Array, weight: Float32Array) {
  graph.begin(64);
  const left = graph.input("f32", [rows, inputs], x);
  const twice: CpuTensor = { ...left, handle: graph.ggml.base.add(graph.claim(), left.handle, left.handle) };
  const handle = graph.recordGemm(graph.input("f32", [outputs, inputs], weight), twice);
  const product: CpuTensor = { handle, type: "f32", shape: [rows, outputs] };
  graph.output(product);
  await graph.run(rows);
  const values = new Float32Array(rows * outputs);
  graph.read(product, values);
  return values;
}

const SIZES: readonly Sizes[] = [
  { rows: 12, inputs: 384, outputs: 640 },
  { rows: 77, inputs: 1024, outputs: 384 },
  { rows: 11, inputs: 384, outputs: 640 },
  { rows: 64, inputs: 128, outputs: 128 },
];

for (const sizes of SIZES) {
  const { rows, inputs, outputs } = sizes;
  test(`recordGemm() agrees with the reference: ${rows} rows, ${inputs} -> ${outputs}`, async () => {
    const graph = new CpuGraph(device);
    const x = randomFloats(rows * inputs, 1);
    const weight = randomFloats(outputs * inputs, 2);
    const expected = linearRef({ x: x.map((value) => 2 * value), weight, inputs });
    assert.ok(maxDifference(await multiply(graph, sizes, x, weight), expected) < 2e-4);
    // Another recording in the same memory.
    assert.ok(maxDifference(await multiply(graph, sizes, x, weight), expected) < 2e-4);
    graph.close();
  });
}

test("run() leaves the event loop free between the GEMMs of a long graph", async () => {
  const graph = new CpuGraph(device);
  const sizes = { rows: 512, inputs: 2048, outputs: 2048 };
  const weight = new Float32Array(sizes.inputs * sizes.outputs).fill(1);
  let numTurns = 0;
  const running = multiply(graph, sizes, new Float32Array(sizes.rows * sizes.inputs).fill(1), weight);
  const turn = (): Promise<undefined> => new Promise((resolve) => setImmediate(() => resolve(undefined)));
  while ((await Promise.race([running, turn()])) === undefined) numTurns++;
  assert.ok(numTurns > 0);
  assert.deepEqual(new Set(await running), new Set([2 * sizes.inputs]));
  graph.close();
});

test("takes() is for many rows of f32 and matrices that are worth a node", () => {
  const graph = new CpuGraph(device);
  graph.begin(64);
  const dense = DenseGemms.for(1);
  assert.ok(dense !== undefined);
  const products = dense.forGraph(device.ggml);
  const floats = (shape: readonly [number, number]): CpuTensor => graph.empty("f32", shape);
  const cases = [
    [floats([640, 384]), floats([12, 384]), true],
    [floats([640, 384]), floats([11, 384]), false],
    [floats([64, 384]), floats([12, 384]), false],
    [floats([8192, 1024]), floats([31, 1024]), false],
    [floats([8192, 1024]), floats([32, 1024]), true],
    [graph.empty("bf16", [640, 384]), floats([12, 384]), false],
    [graph.empty("q8_0", [640, 384]), floats([12, 384]), false],
  ] as const;
  for (const [weight, x, expected] of cases) assert.equal(products.takes(weight, x), expected);
  products.close();
  dense.close();
  graph.close();
});

test("useDenseGemms() does nothing on a deterministic device, nor for more threads than were measured", async () => {
  const deterministic = new CpuDevice({ numThreads: 1, isDeterministic: true });
  deterministic.useDenseGemms();
  assert.equal(deterministic.denseGemms, undefined);
  await deterministic.close();
  assert.equal(DenseGemms.for(3), undefined);
});
