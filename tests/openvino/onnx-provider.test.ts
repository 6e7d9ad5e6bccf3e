/** ONNX models with `cpu_execution_accelerator { name: "openvino" }` run on OpenVINO's kernels, where the library has them. */
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { createOnnxBackend } from "../../server/src/backend/onnx/onnx-backend.ts";
import { perceptron } from "../fakes/perceptron.ts";
import { fakeSource, floatsOf, floatTensor, loadInstance } from "../fakes/run-instance.ts";
import { differences } from "../fakes/tree-models.ts";
import { type PythonVenv, pythonVenv } from "../python-venv.ts";
import { longTestsReason } from "../support/long-tests.ts";

const TOLERANCE = 1e-4;
const SIZE = 48;
const CONFIG = `name: "m" backend: "onnxruntime" max_batch_size: 8
  input [ { name: "X" data_type: TYPE_FP32 dims: [ ${SIZE} ] } ]
  output [ { name: "Y" data_type: TYPE_FP32 dims: [ ${SIZE} ] } ]`;
const ACCELERATED = `${CONFIG} optimization { execution_accelerators { cpu_execution_accelerator [ { name: "openvino" } ] } }`;
const venv: PythonVenv =
  longTestsReason === undefined
    ? await pythonVenv(["onnxruntime-openvino==1.24.1"], "onnxruntime-openvino")
    : { python: undefined, reason: longTestsReason };
const folder = mkdtempSync(join(tmpdir(), "nereid-onnx-openvino-"));
after(() => rmSync(folder, { recursive: true, force: true }));
mkdirSync(join(folder, "1"));
writeFileSync(join(folder, "1", "model.onnx"), perceptron("n", SIZE));
const ROWS = floatTensor(
  "X",
  [5, SIZE],
  Float32Array.from({ length: 5 * SIZE }, (_, i) => Math.sin(i)),
);

test("a library without OpenVINO's kernels refuses the model by the provider's name", async () => {
  await assert.rejects(
    createOnnxBackend().load(fakeSource(ACCELERATED, folder)),
    /model 'm' asks for OpenVINO's kernels, which need OpenVINOExecutionProvider: ONNX Runtime .* has .*CPUExecutionProvider only/,
  );
});

test("OpenVINO's kernels give the answers of ONNX Runtime's own", { skip: venv.reason }, async () => {
  const run = async (config: string, settings: ReadonlyMap<string, string>): Promise<Float32Array> => {
    const backend = createOnnxBackend();
    await using loaded = await loadInstance(
      { name: backend.name, load: (source) => backend.load({ ...source, settings }), close: () => backend.close() },
      config,
      folder,
    );
    return floatsOf((await loaded.run([ROWS], { outputs: ["Y"] })).get("Y"));
  };
  const expected = await run(CONFIG, new Map());
  const actual = await run(ACCELERATED, new Map([["library", libraryOf(venv.python ?? "")]]));
  assert.deepEqual(differences(actual, expected, TOLERANCE), []);
});

function libraryOf(python: string): string {
  const lib = join(dirname(dirname(python)), "lib");
  const [version = ""] = readdirSync(lib).filter((name) => name.startsWith("python3"));
  const capi = join(lib, version, "site-packages", "onnxruntime", "capi");
  const name = readdirSync(capi).find((file) => file.startsWith("libonnxruntime.so."));
  assert.ok(name);
  return join(capi, name);
}
