import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { addSub, matmulChain, ONNX_TYPE } from "../../../../tests/fakes/onnx-writer.ts";
import type { Tensor } from "../../core/tensor.ts";
import { OnnxRuntime, type SessionOptions } from "./onnxruntime.ts";
import type { OnnxSession } from "./session.ts";
import { OnnxRuntimeError } from "./status.ts";

const folder = mkdtempSync(join(tmpdir(), "nereid-ort-start-"));
const runtime = new OnnxRuntime({ isVerbose: false });
const sessions: OnnxSession[] = [];
after(async () => {
  for (const session of sessions) await session.close();
  runtime.close();
  rmSync(folder, { recursive: true });
});

const OPTIONS: SessionOptions = {
  ...{ graphLevel: 99, isParallel: false, intraOpThreads: 2, interOpThreads: 1, runsOnOwnThreads: true },
  config: new Map([["session.intra_op.allow_spinning", "0"]]),
  runConfig: new Map(),
  customOpLibraries: [],
};

async function open(bytes: Uint8Array, options: Partial<SessionOptions> = {}): Promise<OnnxSession> {
  const path = join(folder, `${sessions.length}.onnx`);
  writeFileSync(path, bytes);
  const session = await runtime.createSession(path, { ...OPTIONS, ...options });
  sessions.push(session);
  return session;
}

function ints(name: string, shape: readonly number[], values: readonly number[]): Tensor {
  return { name, datatype: "INT32", shape, data: Buffer.from(Int32Array.from(values).buffer) };
}

const SUM = [{ name: "OUTPUT0" }];

test("runs on a session's own threads give each caller what is its own", async () => {
  const session = await open(addSub(ONNX_TYPE.INT32, ["n", 2]), { intraOpThreads: 3 });
  const runs = Array.from({ length: 200 }, async (_, i) => {
    const inputs = [ints("INPUT0", [1, 2], [i, 1]), ints("INPUT1", [1, 2], [1000, i])];
    const [sum] = await session.runAsync(inputs, SUM).outputs;
    assert.deepEqual(sum, ints("OUTPUT0", [1, 2], [i + 1000, i + 1]));
  });
  await Promise.all(runs);
});

test("a failing run on a session's own thread says why, and the next one works", async () => {
  const session = await open(addSub(ONNX_TYPE.INT32, [2]));
  const [a, b] = [ints("INPUT0", [2], [1, 2]), ints("INPUT1", [2], [3, 4])];
  for (const inputs of [[a], [a, ints("INPUT1", [3], [1, 2, 3])]]) {
    await assert.rejects(session.runAsync(inputs, SUM).outputs, OnnxRuntimeError);
  }
  assert.deepEqual(await session.runAsync([a, b], SUM).outputs, [ints("OUTPUT0", [2], [4, 6])]);
});

test("a run on a session's own thread leaves the event loop alone and can be stopped", async () => {
  const size = 256;
  const session = await open(matmulChain(size, 4000));
  const data = new Uint8Array(4 * size * size);
  const run = session.runAsync([{ name: "X", datatype: "FP32", shape: [size, size], data }], [{ name: "Y" }]);
  await new Promise((resolve) => setTimeout(resolve, 20));
  run.terminate();
  await assert.rejects(run.outputs, (error) => error instanceof OnnxRuntimeError && error.isTermination);
});

test("a session without threads of its own refuses to run there", async () => {
  const session = await open(addSub(ONNX_TYPE.INT32, [2]), { intraOpThreads: 1 });
  const inputs = [ints("INPUT0", [2], [1, 2]), ints("INPUT1", [2], [3, 4])];
  await assert.rejects(session.runAsync(inputs, SUM).outputs, /thread pool/);
});
