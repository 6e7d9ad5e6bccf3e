import assert from "node:assert/strict";
import { test } from "node:test";
import { recordLinear } from "../../../kernels/linear/linear.ggml.ts";
import { linearRef } from "../../../kernels/linear/linear.ref.ts";
import { maxDifference, randomFloats } from "../../../kernels/testing/run-op.ts";
import { convertElements } from "./convert-elements.ts";
import { CpuDevice } from "./cpu-device.ts";
import { CpuGraph } from "./cpu-graph.ts";
import { PlacedTensors } from "./placed-tensors.ts";

const INPUTS = 256;
const OUTPUTS = 64;
const ROWS = 5;

/** A GEMM with a q4_0 matrix written in pieces, in the memory that `isGemmOperand` chooses. */
async function productOf(isGemmOperand: boolean): Promise<{ actual: Float32Array; expected: Float32Array }> {
  const device = new CpuDevice({ numThreads: 1 });
  const placed = new PlacedTensors(device, [
    { type: "f32", shape: [8], isGemmOperand: false },
    { type: "q4_0", shape: [OUTPUTS, INPUTS], isGemmOperand },
  ]);
  const graph = new CpuGraph(device);
  try {
    const values = randomFloats(OUTPUTS * INPUTS, 1);
    const blocks = convertElements(device.ggml, "f32", "q4_0", new Uint8Array(values.buffer));
    const weight = new Float32Array(convertElements(device.ggml, "q4_0", "f32", blocks).buffer);
    const writer = placed.writer(1);
    writer.write(blocks.subarray(0, 18 * 100));
    writer.write(blocks.subarray(18 * 100));
    writer.end();
    const x = randomFloats(ROWS * INPUTS, 2);
    const [, matrix] = placed.tensors;
    if (matrix === undefined) throw new Error("expected two tensors");
    graph.begin(16);
    const result = recordLinear(graph, { x: graph.input("f32", [ROWS, INPUTS], x), weight: matrix });
    graph.output(result);
    await graph.run();
    const actual = new Float32Array(ROWS * OUTPUTS);
    graph.read(result, actual);
    return { actual, expected: linearRef({ x, weight, inputs: INPUTS }) };
  } finally {
    graph.close();
    placed.close();
    await device.close();
  }
}

for (const isGemmOperand of [false, true]) {
  test(`PlacedTensors hold a matrix of blocks that GEMMs read, only multiplied with: ${isGemmOperand}`, async () => {
    const { actual, expected } = await productOf(isGemmOperand);
    // Activations are rounded to 8 bits: half a step of each, times weights of up to 1.
    assert.ok(maxDifference(actual, expected) < 0.3);
  });
}

test("PlacedTensors refuse a tensor that was not written to its end", async () => {
  const device = new CpuDevice({ numThreads: 1 });
  const placed = new PlacedTensors(device, [{ type: "f32", shape: [8], isGemmOperand: false }]);
  const writer = placed.writer(0);
  writer.write(new Float32Array(7));
  assert.throws(() => writer.end(), /expected 32 bytes of a tensor, got 28/);
  placed.close();
  await device.close();
});

test("CpuDevice names no special memory for floats, nor in deterministic mode", async () => {
  const device = new CpuDevice({ numThreads: 1 });
  assert.equal(device.gemmMemory({ type: "f32", shape: [OUTPUTS, INPUTS] }), undefined);
  await device.close();
  const exact = new CpuDevice({ numThreads: 1, isDeterministic: true });
  assert.equal(exact.gemmMemory({ type: "q4_0", shape: [OUTPUTS, INPUTS] }), undefined);
  await exact.close();
});
