/** Weights of every block type of GGUF files are multiplied and looked up as they are stored. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { convertElements } from "../../src/device/cpu/convert-elements.ts";
import { CpuBuffer } from "../../src/device/cpu/cpu-buffer.ts";
import { CpuDevice } from "../../src/device/cpu/cpu-device.ts";
import { CpuGraph } from "../../src/device/cpu/cpu-graph.ts";
import { CPU_TYPE_BYTES } from "../../src/device/cpu/cpu-tensor.ts";
import { GGML_BLOCK_NAMES, GGML_BLOCK_TYPES, type GgmlBlockType } from "../../src/native/ggml/block-types.ts";
import { recordGatherRows } from "../gather-rows/gather-rows.ggml.ts";
import { randomFloats } from "../testing/run-op.ts";
import { recordLinear } from "./linear.ggml.ts";

const [OUTPUTS, INPUTS, ROWS] = [8, 512, 3];
/** Made by tools that know the inputs of a model: here any bits behind a scale of 1/64. */
const BY_IMPORTANCE: readonly GgmlBlockType[] = ["iq2_xxs", "iq2_xs", "iq1_s"];
const SCALE_F16 = 0x2400;

function storedWeights(ggml: CpuDevice["ggml"], type: GgmlBlockType): Uint8Array {
  if (!BY_IMPORTANCE.includes(type)) {
    const values = randomFloats(OUTPUTS * INPUTS, 3);
    return convertElements(ggml, "f32", type, new Uint8Array(values.buffer));
  }
  const bytes = new Uint8Array(OUTPUTS * INPUTS * CPU_TYPE_BYTES[type]);
  for (const [i, value] of randomFloats(bytes.length, 4).entries()) bytes[i] = Math.floor(128 + 127 * value);
  const view = new DataView(bytes.buffer);
  const { numBytes } = GGML_BLOCK_TYPES[type];
  for (let at = 0; at < bytes.length; at += numBytes) view.setUint16(at, SCALE_F16, true);
  return bytes;
}

function floatsOf({ buffer, byteOffset, byteLength }: Uint8Array): Float32Array {
  return new Float32Array(buffer, byteOffset, byteLength / 4);
}

for (const type of GGML_BLOCK_NAMES) {
  test(`weights stored as ${type} are multiplied and looked up as they are`, async (t) => {
    const device = new CpuDevice({ numThreads: 1 });
    t.after(() => device.close());
    const { ggml } = device;
    const bytes = storedWeights(ggml, type);
    const buffer = new CpuBuffer(device, [{ type, shape: [OUTPUTS, INPUTS] }]);
    const graph = new CpuGraph(device);
    const [weight] = buffer.tensors;
    assert.ok(weight !== undefined);
    buffer.write(weight, bytes);
    const x = randomFloats(ROWS * INPUTS, 5);
    graph.begin(64);
    const product = recordLinear(graph, { x: graph.input("f32", [ROWS, INPUTS], x), weight });
    const row = recordGatherRows(graph, { table: weight, ids: graph.input("i32", [1], Int32Array.of(5)) });
    graph.output(product);
    graph.output(row);
    await graph.run();
    const [products, looked] = [new Float32Array(ROWS * OUTPUTS), new Float32Array(INPUTS)];
    graph.read(product, products);
    graph.read(row, looked);
    graph.close();
    buffer.close();
    const wide = floatsOf(convertElements(ggml, type, "f32", bytes));
    assert.deepEqual(looked, wide.slice(5 * INPUTS, 6 * INPUTS));
    const size = Math.sqrt(wide.reduce((sum, value) => sum + value * value, 0) / wide.length);
    for (const [i, value] of products.entries()) {
      const [a, b] = [Math.floor(i / OUTPUTS) * INPUTS, (i % OUTPUTS) * INPUTS];
      let sum = 0;
      for (let j = 0; j < INPUTS; j++) sum += (x[a + j] ?? 0) * (wide[b + j] ?? 0);
      // Rows of x are rounded to 8 bits.
      assert.ok(Math.abs(value - sum) < 0.01 * size * Math.sqrt(INPUTS), `${value}, expected ${sum}`);
    }
  });
}
