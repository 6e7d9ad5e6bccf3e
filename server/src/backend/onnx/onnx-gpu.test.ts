import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { identity, ONNX_TYPE } from "../../../../tests/fakes/onnx-writer.ts";
import { parseModelConfigText } from "../../config/model/model-config.ts";
import { findLibrary } from "../../native/library.ts";
import { onnxRuntimeLibrary } from "../../native/onnxruntime/onnxruntime.ts";
import type { ModelSource } from "../backend.ts";
import { createOnnxBackend } from "./onnx-backend.ts";

const root = mkdtempSync(join(tmpdir(), "nereid-onnx-gpu-"));
const closing: (() => Promise<void>)[] = [];
after(async () => {
  for (const close of closing.reverse()) await close();
  rmSync(root, { recursive: true });
});

const GPUS = { ids: [0, 1], minComputeCapability: 8 };
const CONFIG = `name: "m" input [ { name: "IN" data_type: TYPE_FP32 dims: [ 2 ] } ]
  output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 2 ] } ]`;
const quiet = (): undefined => undefined;

function source(settings: Readonly<Record<string, string>> = {}): ModelSource {
  const versionFolder = join(root, "1");
  mkdirSync(versionFolder, { recursive: true });
  writeFileSync(join(versionFolder, "model.onnx"), identity(ONNX_TYPE.FLOAT, [2]));
  return {
    name: "m",
    version: 1,
    config: parseModelConfigText(CONFIG, "config.pbtxt"),
    modelFolder: root,
    versionFolder,
    settings: new Map(Object.entries(settings)),
    log: { info: quiet, warn: quiet, error: quiet, verbose: quiet, table: quiet },
    models: { infer: () => assert.fail("no other model is called"), signature: () => assert.fail("nor looked at") },
    metrics: { register: () => assert.fail("no metric is registered") },
  };
}

test("KIND_GPU says which library lacks what, and what leaves the place open stays on the CPU", async () => {
  const backend = createOnnxBackend(() => GPUS);
  closing.push(() => backend.close());
  await backend.describe?.(source());
  assert.deepEqual(backend.gpus, { ...GPUS, byRequestOnly: true });
  const loaded = await backend.load(source());
  closing.push(() => loaded.close());
  await assert.rejects(loaded.createInstance({ name: "m_0_gpu1", kind: "KIND_GPU", deviceId: 1 }), {
    code: "unsupported",
    message:
      /need CUDAExecutionProvider: ONNX Runtime [\d.]+ in \S+libonnxruntime\S+ has (\w+, )*CPUExecutionProvider only; name a library/,
  });
});

test("a library of the user's own is loaded by its path", async () => {
  const named = createOnnxBackend();
  const missing = createOnnxBackend();
  closing.push(() => named.close());
  const nowhere = "/nowhere/libonnxruntime.so";
  await assert.rejects(missing.load(source({ library: nowhere })), new RegExp(nowhere));
  const library = findLibrary(onnxRuntimeLibrary(process.platform, process.arch));
  const loaded = await named.load(source({ library }));
  closing.push(() => loaded.close());
  assert.ok((await loaded.createInstance({ name: "m_0", kind: "KIND_CPU", deviceId: 0 })).isReady());
});
