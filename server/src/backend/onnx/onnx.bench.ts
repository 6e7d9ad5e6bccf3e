/** Microseconds of wall and CPU time a run, through the whole backend: `node --conditions=nereid-source --import tsx onnx.bench.ts`. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { addSub, identity, matmulChain, ONNX_TYPE } from "../../../../tests/fakes/onnx-writer.ts";
import { parseModelConfigText } from "../../config/model/model-config.ts";
import { NO_PARAMETERS, NO_SEQUENCE } from "../../core/infer-request.ts";
import type { Tensor } from "../../core/tensor.ts";
import { OnnxRuntime, type SessionOptions } from "../../native/onnxruntime/onnxruntime.ts";
import { keepFreedMemory } from "../../native/process-memory.ts";
import type { Batch, ModelInstance } from "../backend.ts";
import { createOnnxBackend } from "./onnx-backend.ts";

keepFreedMemory();
const root = mkdtempSync(join(tmpdir(), "nereid-onnx-bench-"));
const noLog = {
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  verbose: () => undefined,
  table: () => undefined,
};
const fp32 = (name: string, shape: number[]): Tensor => ({
  name,
  datatype: "FP32",
  shape,
  data: Buffer.alloc(4 * shape.reduce((size, dim) => size * dim, 1)),
});

async function measure(title: string, count: number, run: () => Promise<unknown> | undefined): Promise<void> {
  for (let index = 0; index < count / 10; index++) {
    const done = run();
    if (done !== undefined) await done;
  }
  const cpu = process.cpuUsage();
  const start = performance.now();
  for (let index = 0; index < count; index++) {
    const done = run();
    if (done !== undefined) await done;
    // Lets the event loop turn, as it does between requests.
    if (index % 16 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  const wallUs = ((performance.now() - start) * 1000) / count;
  const { user, system } = process.cpuUsage(cpu);
  const cpuUs = (user + system) / count;
  console.log(`${title.padEnd(52)} ${wallUs.toFixed(1).padStart(9)} us wall ${cpuUs.toFixed(1).padStart(9)} us cpu`);
}

function batchOf(inputs: readonly Tensor[], outputNames: readonly string[]): Batch {
  const request = {
    modelName: "m",
    modelVersion: "",
    id: "",
    inputs,
    outputs: [],
    parameters: NO_PARAMETERS,
    sequence: NO_SEQUENCE,
    priority: 0,
    timeoutUs: 0,
    signal: new AbortController().signal,
    origin: { key: {}, isLast: true },
    arrivalMs: 0,
  };
  const fail = (error: Error): never => {
    throw error;
  };
  const respond = (): undefined => undefined;
  const requests = [{ request, batchSize: 1, outputNames, respond, fail, drained: () => Promise.resolve() }];
  return { requests, batchSize: 1, computeStarted: respond, computeEnded: respond };
}

const backend = createOnnxBackend();
async function start(name: string, config: string, bytes: Uint8Array): Promise<ModelInstance> {
  const versionFolder = join(root, name, "1");
  mkdirSync(versionFolder, { recursive: true });
  writeFileSync(join(versionFolder, "model.onnx"), bytes);
  const model = await backend.load({
    name,
    version: 1,
    config: parseModelConfigText(`name: "${name}" ${config}`, "config.pbtxt"),
    modelFolder: join(root, name),
    versionFolder,
    settings: new Map(),
    log: noLog,
    models: {
      infer: () => ({ [Symbol.asyncIterator]: () => ({ next: async () => ({ done: true, value: undefined }) }) }),
      signature: () => {
        throw new Error("looks at no other model");
      },
    },
    metrics: { register: () => ({ [Symbol.dispose]: () => undefined }) },
  });
  return model.createInstance({ name: `${name}_0`, kind: "KIND_CPU", deviceId: 0 });
}

const { FLOAT } = ONNX_TYPE;
const io = (names: string[], dims: string): string =>
  names.map((name) => `{ name: "${name}" data_type: TYPE_FP32 dims: [ ${dims} ] }`).join(", ");
const pair = await start(
  "add_sub",
  `max_batch_size: 8 input [ ${io(["INPUT0", "INPUT1"], "16")} ] output [ ${io(["OUTPUT0", "OUTPUT1"], "16")} ]`,
  addSub(FLOAT, ["N", 16]),
);
const pairBatch = batchOf([fp32("INPUT0", [1, 16]), fp32("INPUT1", [1, 16])], ["OUTPUT0", "OUTPUT1"]);
await measure("backend: add_sub, 2 x 16 floats", 50_000, () => pair.execute(pairBatch));

for (const [title, count] of [
  ["600 KB", 150_000],
  ["1 MB", 262_144],
] as const) {
  for (const [how, dims] of [
    ["written in place", ["N", "M"]],
    ["copied out", ["N", ""]],
  ] as const) {
    const name = `identity_${count}_${dims[1]}`;
    const config = `max_batch_size: 8 input [ ${io(["IN"], "-1")} ] output [ ${io(["OUT"], "-1")} ]`;
    const instance = await start(name, config, identity(FLOAT, dims));
    const batch = batchOf([fp32("IN", [1, count])], ["OUT"]);
    await measure(`backend: identity ${title}, ${how}`, 3_000, () => instance.execute(batch));
  }
}

const runtime = new OnnxRuntime({ isVerbose: false });
for (const [title, bytes, shape] of [
  ["1 product of 8 x 8", matmulChain(8, 1), [8, 8]],
  ["20 products of 64 x 64", matmulChain(64, 20), [64, 64]],
  ["10 products of 512 x 512", matmulChain(512, 10), [512, 512]],
] as const) {
  for (const [threads, spinning] of [
    [1, "0"],
    [2, "0"],
    [2, "1"],
  ] as const) {
    const path = join(root, "chain.onnx");
    writeFileSync(path, bytes);
    const options: SessionOptions = {
      graphLevel: 99,
      isParallel: false,
      intraOpThreads: threads,
      interOpThreads: 1,
      config: new Map([["session.intra_op.allow_spinning", spinning]]),
      runConfig: new Map(),
      customOpLibraries: [],
    };
    const session = await runtime.createSession(path, options);
    const input = fp32("X", [...shape]);
    const count = shape[0] === 512 ? 60 : 3_000;
    const label = `${title}, ${threads} threads, ${spinning === "1" ? "spinning" : "sleeping"}`;
    await measure(`off the loop: ${label}`, count, () => session.runAsync([input], [{ name: "Y" }]).outputs);
    await session.close();
  }
}
rmSync(root, { recursive: true });
