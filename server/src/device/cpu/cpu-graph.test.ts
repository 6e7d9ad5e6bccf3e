import assert from "node:assert/strict";
import { after, test } from "node:test";
import { CpuDevice } from "./cpu-device.ts";
import { CpuGraph } from "./cpu-graph.ts";
import type { CpuTensor } from "./cpu-tensor.ts";

const device = new CpuDevice({ numThreads: 2 });
after(() => device.close());

/** Doubles a tensor. */
function recordDouble(graph: CpuGraph, x: CpuTensor): CpuTensor {
  return { ...x, handle: graph.ggml.base.add(graph.claim(), x.handle, x.handle) };
}

async function double(graph: CpuGraph, values: Float32Array): Promise<Float32Array> {
  graph.begin(8);
  const result = recordDouble(graph, graph.input("f32", [values.length], values));
  graph.output(result);
  await graph.run();
  const out = new Float32Array(values.length);
  graph.read(result, out);
  return out;
}

test("run() computes what was recorded, and begin() makes room for the next", async () => {
  const graph = new CpuGraph(device);
  assert.deepEqual(await double(graph, Float32Array.of(1, 2)), Float32Array.of(2, 4));
  assert.deepEqual(await double(graph, Float32Array.of(3, 4, 5)), Float32Array.of(6, 8, 10));
  graph.close();
});

test("run() leaves the event loop free", async () => {
  const graph = new CpuGraph(device);
  graph.begin(8);
  const size = 1024;
  const matrix = graph.input("f32", [size, size], new Float32Array(size * size).fill(1));
  const product = graph.ggml.base.mulMat(graph.claim(), matrix.handle, matrix.handle);
  graph.output({ handle: product, type: "f32", shape: [size, size] });
  let numTurns = 0;
  const running = graph.run().then(() => "done");
  const turn = (): Promise<string> => new Promise((resolve) => setImmediate(() => resolve("turn")));
  while ((await Promise.race([running, turn()])) === "turn") numTurns++;
  assert.ok(numTurns > 0);
  graph.close();
});

test("claim() refuses the tensor that would outgrow the graph", () => {
  const graph = new CpuGraph(device);
  graph.begin(64);
  for (let i = 0; i < 64; i++) graph.empty("f32", [1]);
  assert.throws(() => graph.empty("f32", [1]), /a graph outgrew its 64 tensors/);
  graph.close();
});

test("input() refuses data of another size", () => {
  const graph = new CpuGraph(device);
  graph.begin(8);
  assert.throws(() => graph.input("f32", [2, 2], new Float32Array(3)), /expected 16 bytes, got 12/);
  graph.close();
});

test("run() refuses an input that no node uses", async () => {
  const graph = new CpuGraph(device);
  graph.begin(8);
  graph.input("f32", [4], new Float32Array(4));
  graph.output(recordDouble(graph, graph.input("f32", [1], new Float32Array(1))));
  await assert.rejects(graph.run(), /an input of the graph is used by no node/);
  graph.close();
});

test("run() of an empty recording does nothing", async () => {
  const graph = new CpuGraph(device);
  graph.begin(8);
  await graph.run();
  graph.close();
  graph.close();
});
