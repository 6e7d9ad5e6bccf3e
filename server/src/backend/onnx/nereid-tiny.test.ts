/** The example models load, describe themselves and run, alone and in a batch. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { Tensor } from "../../core/tensor.ts";
import { checkExternalData } from "../../formats/onnx/external-data.ts";
import { OnnxRuntime, type SessionOptions } from "../../native/onnxruntime/onnxruntime.ts";
import type { OnnxSession } from "../../native/onnxruntime/session.ts";
import { describeModel } from "./model-values.ts";

const folder = fileURLToPath(new URL("../../../../examples/nereid-tiny/onnx/", import.meta.url));
const runtime = new OnnxRuntime({ isVerbose: false });
const sessions: OnnxSession[] = [];
after(async () => {
  for (const session of sessions) await session.close();
  runtime.close();
});
const OPTIONS: SessionOptions = {
  graphLevel: 99,
  isParallel: false,
  intraOpThreads: 1,
  interOpThreads: 1,
  config: new Map(),
  runConfig: new Map(),
  customOpLibraries: [],
};
async function open(file: string): Promise<OnnxSession> {
  await checkExternalData(folder + file);
  const session = await runtime.createSession(folder + file, OPTIONS);
  sessions.push(session);
  return session;
}
const floats = (tensor: Tensor | undefined): Float32Array =>
  new Float32Array(Uint8Array.from(tensor?.data ?? []).buffer);
const length = (vector: Float32Array): number => Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
/** The first row of a batch must be what the row gives alone, but for the order of summation. */
function assertClose(actual: Float32Array, expected: Float32Array): void {
  for (const [index, value] of expected.entries()) assert.ok(Math.abs((actual[index] ?? Number.NaN) - value) < 1e-4);
}

test("vision_encoder describes itself and gives unit vectors, one or eight", async () => {
  const session = await open("vision_encoder.onnx");
  assert.deepEqual(describeModel(session.info), {
    inputs: [{ name: "pixel_values", dataType: "TYPE_FP32", dims: [-1, 3, 64, 64] }],
    outputs: [
      { name: "image_embeds", dataType: "TYPE_FP32", dims: [-1, 128] },
      { name: "visual_tokens", dataType: "TYPE_FP32", dims: [-1, -1, 384] },
    ],
    canBatch: true,
  });
  const pixels = Float32Array.from({ length: 8 * 3 * 64 * 64 }, (_, index) => (index % 97) / 97);
  const run = async (rows: number): Promise<Tensor[]> => {
    const data = new Uint8Array(pixels.buffer, 0, rows * 3 * 64 * 64 * 4);
    const input: Tensor = { name: "pixel_values", datatype: "FP32", shape: [rows, 3, 64, 64], data };
    return session.runAsync([input], [{ name: "image_embeds" }, { name: "visual_tokens" }]).outputs;
  };
  const [alone, aloneTokens] = await run(1);
  const [batch, batchTokens] = await run(8);
  assert.deepEqual(
    [alone?.shape, aloneTokens?.shape],
    [
      [1, 128],
      [1, 16, 384],
    ],
  );
  assert.deepEqual(
    [batch?.shape, batchTokens?.shape],
    [
      [8, 128],
      [8, 16, 384],
    ],
  );
  assert.ok(Math.abs(length(floats(alone)) - 1) < 1e-4);
  assertClose(floats(batch), floats(alone));
  assertClose(floats(batchTokens), floats(aloneTokens));
});

test("text_encoder describes itself and gives unit vectors, one or eight", async () => {
  const session = await open("text_encoder.onnx");
  assert.deepEqual(describeModel(session.info), {
    inputs: [
      { name: "input_ids", dataType: "TYPE_INT64", dims: [-1, -1] },
      { name: "attention_mask", dataType: "TYPE_INT64", dims: [-1, -1] },
    ],
    outputs: [{ name: "text_embeds", dataType: "TYPE_FP32", dims: [-1, 128] }],
    canBatch: true,
  });
  const int64 = (name: string, shape: number[], values: bigint[]): Tensor => ({
    name,
    datatype: "INT64",
    shape,
    data: new Uint8Array(BigInt64Array.from(values).buffer),
  });
  const run = async (rows: number): Promise<Tensor | undefined> => {
    const ids = Array.from({ length: rows * 6 }, (_, index) => BigInt(index % 6 === 0 ? 1 : 20 + index));
    const mask = ids.map(() => 1n);
    const inputs = [int64("input_ids", [rows, 6], ids), int64("attention_mask", [rows, 6], mask)];
    const [output] = await session.runAsync(inputs, [{ name: "text_embeds" }]).outputs;
    return output;
  };
  const alone = await run(1);
  const batch = await run(8);
  assert.deepEqual(
    [alone?.shape, batch?.shape],
    [
      [1, 128],
      [8, 128],
    ],
  );
  assert.ok(Math.abs(length(floats(alone)) - 1) < 1e-4);
  assertClose(floats(batch), floats(alone));
});
