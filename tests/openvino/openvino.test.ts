/** Models of OpenVINO give the answers of ONNX Runtime: in ONNX, in IR, with every parameter that changes how they run. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import type { Backend } from "../../server/src/backend/backend.ts";
import { createOnnxBackend } from "../../server/src/backend/onnx/onnx-backend.ts";
import { createOpenvinoBackend } from "../../server/src/backend/openvino/openvino-backend.ts";
import { addSub, ONNX_TYPE } from "../fakes/onnx-writer.ts";
import { perceptron } from "../fakes/perceptron.ts";
import { fakeSource, floatsOf, floatTensor, loadInstance, runOnce } from "../fakes/run-instance.ts";
import { differences, environmentOf } from "../fakes/tree-models.ts";
import { type PythonVenv, pythonVenv } from "../python-venv.ts";
import { longTestsReason } from "../support/long-tests.ts";

const TOLERANCE = 1e-4;
const SIZE = 48;
const CONVERT = `import sys, openvino
openvino.save_model(openvino.convert_model(sys.argv[1]), sys.argv[2], compress_to_fp16=False)`;
const venv: PythonVenv =
  longTestsReason === undefined
    ? await pythonVenv(["openvino==2026.4.1"], "openvino")
    : { python: undefined, reason: longTestsReason };
const folder = mkdtempSync(join(tmpdir(), "nereid-openvino-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const CHAIN = `max_batch_size: 8
  input [ { name: "X" data_type: TYPE_FP32 dims: [ ${SIZE} ] } ]
  output [ { name: "Y" data_type: TYPE_FP32 dims: [ ${SIZE} ] } ]`;

function configOf(backend: string, rest: string, parameters: Readonly<Record<string, string>> = {}): string {
  const listed = Object.entries(parameters).map(
    ([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`,
  );
  return `name: "m" backend: "${backend}" ${rest} ${listed.join(" ")}`;
}

function rowsOf(numRows: number): ReturnType<typeof floatTensor> {
  return floatTensor(
    "X",
    [numRows, SIZE],
    Float32Array.from({ length: numRows * SIZE }, (_, i) => Math.sin(i)),
  );
}

async function answer(backend: Backend, config: string, numRows: number): Promise<Float32Array> {
  await using loaded = await loadInstance(backend, config, folder);
  return floatsOf((await loaded.run([rowsOf(numRows)], { outputs: ["Y"] })).get("Y"));
}

describe("the backend `openvino`", { skip: venv.reason }, () => {
  const backend = createOpenvinoBackend({ environment: environmentOf(venv.python ?? "") });
  before(async () => {
    mkdirSync(join(folder, "1"));
    writeFileSync(join(folder, "1", "model.onnx"), perceptron("n", SIZE));
    writeFileSync(join(folder, "1", "eight.onnx"), perceptron(8, SIZE));
    writeFileSync(join(folder, "1", "pair.onnx"), addSub(ONNX_TYPE.INT32, ["n", 4]));
    await promisify(execFile)(venv.python ?? "", [
      "-c",
      CONVERT,
      join(folder, "1/model.onnx"),
      join(folder, "1/model.xml"),
    ]);
  });

  for (const [what, rest, parameters] of [
    ["IR", CHAIN, {}],
    ["ONNX", `${CHAIN} default_model_filename: "model.onnx"`, {}],
    ["a model of 8 rows, made free", `${CHAIN} default_model_filename: "eight.onnx"`, {}],
    [
      "a model of 8 rows, filled up",
      `${CHAIN} default_model_filename: "eight.onnx"`,
      { SKIP_OV_DYNAMIC_BATCHSIZE: "YES", ENABLE_BATCH_PADDING: "YES" },
    ],
    [
      "IR with streams and threads",
      CHAIN,
      { NUM_STREAMS: "2", INFERENCE_NUM_THREADS: "2", PERFORMANCE_HINT: "THROUGHPUT" },
    ],
    [
      "IR with the shapes of the configuration",
      CHAIN,
      { RESHAPE_IO_LAYERS: "yes", TARGET_DEVICE: "CPU", NUM_STREAMS: "AUTO" },
    ],
  ] as const) {
    test(`gives ONNX Runtime's answers for ${what}`, async () => {
      for (const numRows of [1, 5]) {
        const expected = await answer(createOnnxBackend(), configOf("onnxruntime", CHAIN), numRows);
        const actual = await answer(backend, configOf("openvino", rest, parameters), numRows);
        assert.deepEqual(differences(actual, expected, TOLERANCE), []);
      }
    });
  }

  test("computes in several instances at once", async () => {
    const expected = await answer(createOnnxBackend(), configOf("onnxruntime", CHAIN), 5);
    const model = await backend.load(
      fakeSource(configOf("openvino", `${CHAIN} instance_group { count: 3 kind: KIND_CPU }`), folder),
    );
    const names = ["m_0_0", "m_0_1", "m_0_2"];
    const instances = await Promise.all(
      names.map((name) => model.createInstance({ name, kind: "KIND_CPU", deviceId: 0 })),
    );
    for (let round = 0; round < 20; round++) {
      const answers = await Promise.all(instances.map((instance) => runOnce(instance, [rowsOf(5)])));
      for (const outputs of answers) assert.deepEqual(differences(floatsOf(outputs.get("Y")), expected, TOLERANCE), []);
    }
    for (const instance of instances) await instance.close();
    await model.close();
  });

  test("refuses batches of other rows than the model keeps", async () => {
    const text = configOf("openvino", `${CHAIN} default_model_filename: "eight.onnx"`, {
      SKIP_OV_DYNAMIC_BATCHSIZE: "YES",
    });
    await using loaded = await loadInstance(backend, text, folder);
    await assert.rejects(
      loaded.run([rowsOf(5)]),
      /the model takes batches of 8 rows, got 5: set the parameter ENABLE_BATCH_PADDING/,
    );
  });

  test("fills tensors in, of integers too", async () => {
    const text = configOf("openvino", 'max_batch_size: 4 default_model_filename: "pair.onnx"');
    const description = await backend.describe?.(fakeSource(text, folder));
    assert.equal(description?.canBatch, true);
    assert.deepEqual(
      [...description.inputs, ...description.outputs].map(({ dataType, dims }) => `${dataType} ${dims.join()}`),
      new Array(4).fill("TYPE_INT32 -1,4"),
    );
  });

  for (const [what, rest, parameters, message] of [
    [
      "a type that the model lacks",
      CHAIN.replace("FP32", "INT32"),
      {},
      /input 'X': the model has TYPE_FP32, got TYPE_INT32/,
    ],
    ["dimensions that it lacks", CHAIN.replace(`${SIZE}`, "7"), {}, /input 'X': the model has \[-1,48\], got \[-1,7\]/],
    [
      "an output that it lacks",
      CHAIN.replace('"Y"', '"Z"'),
      {},
      /output 'Z': the model has no such output, expected 'Y'/,
    ],
    [
      "streams that are none",
      CHAIN,
      { NUM_STREAMS: "many" },
      /'NUM_STREAMS' to be either AUTO\/NUMA\/<int_value>, got many/,
    ],
    [
      "a parameter that looks misspelt",
      CHAIN,
      { NUM_STREAM: "1" },
      /unknown parameter 'NUM_STREAM', did you mean 'NUM_STREAMS'/,
    ],
    ["a device that is not there", CHAIN, { TARGET_DEVICE: "FPGA" }, /unable to load model 'm': .*FPGA/],
  ] as const) {
    test(`refuses ${what}`, async () => {
      await assert.rejects(backend.load(fakeSource(configOf("openvino", rest, parameters), folder)), message);
    });
  }
});
