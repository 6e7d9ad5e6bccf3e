import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import {
  addSub,
  bytesField,
  type Dim,
  externalTensor,
  identity,
  intField,
  matmulChain,
  model,
  node,
  ONNX_TYPE,
  tensor,
} from "../../../../tests/fakes/onnx-writer.ts";
import { parseModelConfigText } from "../../config/model/model-config.ts";
import { packBytesElements } from "../../core/bytes-tensor.ts";
import { NO_PARAMETERS, NO_SEQUENCE } from "../../core/infer-request.ts";
import type { ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { BackendRequest, ModelInstance, ModelSource } from "../backend.ts";
import { createOnnxBackend } from "./onnx-backend.ts";

const { FLOAT, INT32, STRING } = ONNX_TYPE;
const root = mkdtempSync(join(tmpdir(), "nereid-onnx-backend-"));
const backend = createOnnxBackend();
const closing: (() => Promise<void>)[] = [];
after(async () => {
  for (const close of closing) await close();
  await backend.close();
});

const warnings: string[] = [];
const log = {
  info: () => undefined,
  warn: (_: string, text: string) => {
    warnings.push(text);
  },
  error: () => undefined,
  verbose: () => undefined,
  table: () => undefined,
};
let folders = 0;
function source(text: string, files: Record<string, Uint8Array>): ModelSource {
  const modelFolder = join(root, `${folders++}`);
  const versionFolder = join(modelFolder, "1");
  mkdirSync(versionFolder, { recursive: true });
  for (const [name, bytes] of Object.entries(files)) {
    mkdirSync(join(versionFolder, name, ".."), { recursive: true });
    writeFileSync(join(versionFolder, name), bytes);
  }
  return {
    name: "m",
    version: 1,
    config: parseModelConfigText(`name: "m" ${text}`, "config.pbtxt"),
    modelFolder,
    versionFolder,
    settings: new Map(),
    log,
    models: { infer: () => assert.fail("no other model is called"), signature: () => assert.fail("nor looked at") },
    metrics: { register: () => assert.fail("no metric is registered") },
  };
}
async function start(text: string, bytes: Uint8Array): Promise<ModelInstance> {
  const loaded = await backend.load(source(text, { "model.onnx": bytes }));
  closing.push(() => loaded.close());
  return loaded.createInstance({ name: "m_0", kind: "KIND_CPU", deviceId: 0 });
}

interface Asked {
  readonly inputs: readonly Tensor[];
  readonly rows?: number;
  readonly outputNames?: readonly string[];
  readonly signal?: AbortSignal;
}
interface Answered {
  readonly outputs: (readonly Tensor[])[];
  readonly errors: ServerError[];
  readonly marks: string[];
}
async function execute(instance: ModelInstance, asked: readonly Asked[]): Promise<Answered> {
  const answered: Answered = { outputs: [], errors: [], marks: [] };
  const requests = asked.map(
    ({ inputs, rows, outputNames, signal }): BackendRequest => ({
      request: {
        modelName: "m",
        modelVersion: "",
        id: "",
        inputs,
        outputs: [],
        parameters: NO_PARAMETERS,
        sequence: NO_SEQUENCE,
        priority: 0,
        timeoutUs: 0,
        signal: signal ?? new AbortController().signal,
        origin: { key: {}, isLast: true },
        arrivalMs: 0,
      },
      batchSize: rows ?? 1,
      outputNames: outputNames ?? ["OUT"],
      respond: ({ outputs }) => {
        answered.marks.push("respond");
        answered.outputs.push(outputs);
      },
      fail: (error) => {
        answered.errors.push(error);
      },
      drained: () => Promise.resolve(),
    }),
  );
  await instance.execute({
    requests,
    batchSize: requests.reduce((sum, { batchSize }) => sum + batchSize, 0),
    computeStarted: () => answered.marks.push("start"),
    computeEnded: () => answered.marks.push("end"),
  });
  return answered;
}
const f32 = (name: string, shape: number[], values: number[]): Tensor => ({
  name,
  datatype: "FP32",
  shape,
  data: new Uint8Array(Float32Array.from(values).buffer),
});
const shown = ({ name, shape, data }: Tensor): unknown => [
  name,
  shape,
  Array.from(new Float32Array(Uint8Array.from(data).buffer)),
];
const io = (type: string, dims: string): string =>
  `input [ { name: "IN" data_type: ${type} dims: [ ${dims} ] } ] output [ { name: "OUT" data_type: ${type} dims: [ ${dims} ] } ]`;

test("execute() answers a lone request, on the event loop or off it", async () => {
  const instance = await start(io("TYPE_FP32", "-1"), identity(FLOAT, ["M"]));
  for (let round = 0; round < 40; round++) {
    const { outputs, errors, marks } = await execute(instance, [{ inputs: [f32("IN", [3], [round, 1, 2])] }]);
    assert.deepEqual(outputs[0]?.map(shown), [["OUT", [3], [round, 1, 2]]]);
    assert.deepEqual(errors, []);
    assert.deepEqual(marks, ["start", "end", "respond"]);
  }
});

test("execute() joins the requests of a batch and deals the rows out again", async () => {
  const text = `max_batch_size: 8
    input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 2 ] }, { name: "INPUT1" data_type: TYPE_FP32 dims: [ 2 ] } ]
    output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 2 ] }, { name: "OUTPUT1" data_type: TYPE_FP32 dims: [ 2 ] } ]`;
  const instance = await start(text, addSub(FLOAT, ["N", 2]));
  const { outputs, errors } = await execute(instance, [
    { inputs: [f32("INPUT0", [1, 2], [1, 2]), f32("INPUT1", [1, 2], [10, 20])], outputNames: ["OUTPUT1", "OUTPUT0"] },
    {
      inputs: [f32("INPUT1", [2, 2], [1, 1, 1, 1]), f32("INPUT0", [2, 2], [3, 4, 5, 6])],
      rows: 2,
      outputNames: ["OUTPUT0"],
    },
  ]);
  assert.deepEqual(errors, []);
  assert.deepEqual(
    outputs.map((tensors) => tensors.map(shown)),
    [
      [
        ["OUTPUT1", [1, 2], [-9, -18]],
        ["OUTPUT0", [1, 2], [11, 22]],
      ],
      [["OUTPUT0", [2, 2], [4, 5, 6, 7]]],
    ],
  );
});

test("execute() deals strings out by their lengths", async () => {
  const instance = await start(`max_batch_size: 8 ${io("TYPE_STRING", "2")}`, identity(STRING, ["N", 2]));
  const strings = (shape: number[], texts: string[]): Tensor => ({
    name: "IN",
    datatype: "BYTES",
    shape,
    data: packBytesElements(texts),
  });
  const first = strings([1, 2], ["zażółć", ""]);
  const second = strings([2, 2], ["a", "😀", "", "dd"]);
  const { outputs } = await execute(instance, [{ inputs: [first] }, { inputs: [second], rows: 2 }]);
  assert.deepEqual(
    outputs.map(([tensor]) => [tensor?.shape, Buffer.from(tensor?.data ?? []).toString("hex")]),
    [first, second].map(({ shape, data }) => [shape, Buffer.from(data).toString("hex")]),
  );
});

test("execute() refuses requests that do not fit each other, and goes on", async () => {
  const instance = await start(`max_batch_size: 8 ${io("TYPE_FP32", "-1")}`, identity(FLOAT, ["N", "M"]));
  const good: Asked = { inputs: [f32("IN", [1, 2], [1, 2])] };
  for (const bad of [f32("IN", [1, 3], [1, 2, 3]), f32("ZZ", [1, 2], [1, 2]), f32("IN", [2], [1, 2])]) {
    const { outputs, errors } = await execute(instance, [good, { inputs: [bad] }]);
    assert.deepEqual(outputs, []);
    assert.deepEqual(
      errors.map(({ code, reason, message }) => [code, reason, message]),
      Array.from({ length: 2 }, () => ["internal", "BACKEND", "requests of one batch have different inputs 'IN'"]),
    );
  }
  assert.equal((await execute(instance, [good])).outputs.length, 1);
});

test("execute() refuses a batch for a model without batch dimension and outputs that it lacks", async () => {
  const instance = await start(io("TYPE_FP32", "-1"), identity(FLOAT, ["M"]));
  const asked: Asked = { inputs: [f32("IN", [1], [1])] };
  const messages = async (requests: Asked[]): Promise<string[]> =>
    (await execute(instance, requests)).errors.map(({ message }) => message);
  const tooMany = "batch size 2 for 'm', max allowed is 0";
  assert.deepEqual(await messages([asked, asked]), [tooMany, tooMany]);
  assert.deepEqual(await messages([{ ...asked, outputNames: ["NO"] }]), ["output tensor 'NO' is not found"]);
});

test("execute() fails a batch with ONNX Runtime's words when the model refuses it", async () => {
  const reshape = model({
    nodes: [node("Reshape", ["IN", "shape"], ["OUT"])],
    inputs: [["IN", FLOAT, ["M"]]],
    outputs: [["OUT", FLOAT, [2, 2]]],
    initializers: [tensor("shape", ONNX_TYPE.INT64, [2], new Uint8Array(BigInt64Array.of(2n, 2n).buffer))],
  });
  const instance = await start(
    'input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ] output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 2, 2 ] } ]',
    reshape,
  );
  const { errors } = await execute(instance, [{ inputs: [f32("IN", [3], [1, 2, 3])] }]);
  assert.equal(errors[0]?.code, "internal");
  assert.equal(errors[0]?.reason, "BACKEND");
  assert.match(errors[0]?.message ?? "", /^onnx runtime error \d+: .*Reshape/);
  const { outputs } = await execute(instance, [{ inputs: [f32("IN", [4], [1, 2, 3, 4])] }]);
  assert.deepEqual(outputs[0]?.map(shown), [["OUT", [2, 2], [1, 2, 3, 4]]]);
});

test("execute() follows the model when an output is not as declared", async () => {
  const declared: Dim[] = ["N", 2];
  const lies = model({
    nodes: [
      node(
        "Concat",
        ["IN", "IN"],
        ["OUT"],
        [Buffer.concat([bytesField(5, Buffer.concat([bytesField(1, "axis"), intField(3, 0), intField(20, 2)]))])],
      ),
    ],
    inputs: [["IN", FLOAT, declared]],
    outputs: [["OUT", FLOAT, declared]],
  });
  const instance = await start(
    'input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1, 2 ] } ] output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1, 2 ] } ]',
    lies,
  );
  for (let round = 0; round < 5; round++) {
    const { outputs, errors } = await execute(instance, [{ inputs: [f32("IN", [1, 2], [round, 2])] }]);
    assert.deepEqual(errors, []);
    assert.deepEqual(outputs[0]?.map(shown), [["OUT", [2, 2], [round, 2, round, 2]]]);
  }
});

test("execute() gives scalars the shape of the configuration", async () => {
  const instance = await start(io("TYPE_FP32", "1"), identity(FLOAT, []));
  const { outputs } = await execute(instance, [{ inputs: [f32("IN", [1], [7])] }]);
  assert.deepEqual(outputs[0]?.map(shown), [["OUT", [1], [7]]]);
});

test("execute() stops a run that nobody waits for any more", async () => {
  const text =
    'input [ { name: "X" data_type: TYPE_FP32 dims: [ 512, 512 ] } ] output [ { name: "Y" data_type: TYPE_FP32 dims: [ 512, 512 ] } ]';
  const instance = await start(text, matmulChain(512, 400));
  const controller = new AbortController();
  const input = f32("X", [512, 512], new Array<number>(512 * 512).fill(0));
  setTimeout(() => controller.abort(), 20);
  const { outputs, errors } = await execute(instance, [
    { inputs: [input], outputNames: ["Y"], signal: controller.signal },
  ]);
  assert.deepEqual(outputs, []);
  assert.deepEqual(
    errors.map(({ code, reason }) => [code, reason]),
    [["cancelled", "CANCELED"]],
  );
});

test("execute() overlaps two instances while timers tick", async () => {
  const text =
    'instance_group [ { count: 2 kind: KIND_CPU } ] input [ { name: "X" data_type: TYPE_FP32 dims: [ 256, 256 ] } ] output [ { name: "Y" data_type: TYPE_FP32 dims: [ 256, 256 ] } ]';
  const loaded = await backend.load(source(text, { "model.onnx": matmulChain(256, 60) }));
  closing.push(() => loaded.close());
  const spec = { kind: "KIND_CPU", deviceId: 0 } as const;
  const instances = [
    await loaded.createInstance({ name: "a", ...spec }),
    await loaded.createInstance({ name: "b", ...spec }),
  ];
  const input = f32("X", [256, 256], new Array<number>(65536).fill(0));
  let ticks = 0;
  const timer = setInterval(() => {
    ticks++;
  }, 1);
  const answers = await Promise.all(instances.map((each) => execute(each, [{ inputs: [input], outputNames: ["Y"] }])));
  clearInterval(timer);
  assert.deepEqual(
    answers.map(({ outputs, errors }) => [outputs.length, errors.length]),
    [
      [1, 0],
      [1, 0],
    ],
  );
  assert.ok(ticks > 0);
});

test("describe() tells what the model declares, unless the configuration says all", async () => {
  const files = { "model.onnx": addSub(INT32, ["N", 4]) };
  const tensors = (names: string[]): unknown => names.map((name) => ({ name, dataType: "TYPE_INT32", dims: [-1, 4] }));
  assert.deepEqual(await backend.describe?.(source("", files)), {
    inputs: tensors(["INPUT0", "INPUT1"]),
    outputs: tensors(["OUTPUT0", "OUTPUT1"]),
    canBatch: true,
  });
  assert.equal(await backend.describe?.(source(io("TYPE_INT32", "4"), files)), undefined);
});

test("load() finds the model where the configuration says", async () => {
  const bytes = identity(FLOAT, ["M"]);
  const table: [string, string][] = [
    ["", "model.onnx"],
    ["", "model.onnx/model.onnx"],
    ['default_model_filename: "weights.onnx"', "weights.onnx"],
  ];
  for (const [text, file] of table) {
    const loaded = await backend.load(source(`${text} ${io("TYPE_FP32", "-1")}`, { [file]: bytes }));
    await loaded.close();
  }
});

test("load() and describe() refuse what cannot be loaded", async () => {
  const io1 = io("TYPE_FP32", "-1");
  const bytes = identity(FLOAT, ["M"]);
  const external = model({
    nodes: [node("Add", ["IN", "w"], ["OUT"])],
    inputs: [["IN", FLOAT, ["M"]]],
    outputs: [["OUT", FLOAT, ["M"]]],
    initializers: [externalTensor("w", FLOAT, [1], { location: "../../../etc/passwd" })],
  });
  const table: [string, Record<string, Uint8Array>, string, RegExp][] = [
    [io1, {}, "unavailable", /^unable to find '.*\/1\/model\.onnx' for model instance 'm'$/],
    [io1, { "model.onnx/other": bytes }, "unavailable", /^unable to find '.*\/1\/model\.onnx\/model\.onnx' for model/],
    [
      `default_model_filename: "../1/model.onnx" ${io1}`,
      { "model.onnx": bytes },
      "invalid_argument",
      /inside the version's folder/,
    ],
    [`default_model_filename: "a.ort" ${io1}`, { "a.ort": bytes }, "unsupported", /ORT format/],
    [
      io1,
      { "model.onnx": Buffer.from("this is not a model") },
      "internal",
      /^onnx runtime error 7: Load model from .* failed:Protobuf parsing failed\.$/,
    ],
    [io1, { "model.onnx": bytes.subarray(0, 30) }, "internal", /^onnx runtime error 7: /],
    [io1, { "model.onnx": new Uint8Array(0) }, "internal", /^onnx runtime error \d+: /],
    [
      io1,
      { "model.onnx": external },
      "invalid_argument",
      /^unable to load model 'm', external data of tensor 'w' at '.*passwd' leaves/,
    ],
    [
      io("TYPE_INT32", "-1"),
      { "model.onnx": bytes },
      "invalid_argument",
      /^unable to load model 'm', configuration expects datatype/,
    ],
  ];
  for (const [text, files, code, message] of table) {
    await assert.rejects(backend.load(source(text, files)), { name: "ServerError", code, message });
  }
  await assert.rejects(async () => backend.describe?.(source("", {})), { code: "unavailable" });
  assert.ok(warnings.some((text) => text.includes("no ONNX model")));
});

test("load() reads external data beneath the model's folder", async () => {
  const bytes = model({
    nodes: [node("Add", ["IN", "w"], ["OUT"])],
    inputs: [["IN", FLOAT, ["M"]]],
    outputs: [["OUT", FLOAT, ["M"]]],
    initializers: [externalTensor("w", FLOAT, [1], { location: "weights.bin", offset: "4", length: "4" })],
  });
  const weights = new Uint8Array(Float32Array.of(1, 40).buffer);
  const loaded = await backend.load(
    source(io("TYPE_FP32", "-1"), { "model.onnx/model.onnx": bytes, "model.onnx/weights.bin": weights }),
  );
  closing.push(() => loaded.close());
  const instance = await loaded.createInstance({ name: "m_0", kind: "KIND_CPU", deviceId: 0 });
  const { outputs } = await execute(instance, [{ inputs: [f32("IN", [1], [2])] }]);
  assert.deepEqual(outputs[0]?.map(shown), [["OUT", [1], [42]]]);
});

test("createInstance() refuses a GPU", async () => {
  const loaded = await backend.load(source(io("TYPE_FP32", "-1"), { "model.onnx": identity(FLOAT, ["M"]) }));
  closing.push(() => loaded.close());
  await assert.rejects(loaded.createInstance({ name: "m_0", kind: "KIND_GPU", deviceId: 0 }), { code: "unsupported" });
});
