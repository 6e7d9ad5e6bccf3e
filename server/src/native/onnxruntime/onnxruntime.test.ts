import assert from "node:assert/strict";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import {
  addSub,
  bytesField,
  identity,
  intField,
  matmulChain,
  messageField,
  model,
  node,
  ONNX_TYPE,
  tensor,
} from "../../../../tests/fakes/onnx-writer.ts";
import type { Tensor } from "../../core/tensor.ts";
import { OnnxRuntime, onnxRuntimeLibrary, type SessionOptions } from "./onnxruntime.ts";
import type { OnnxSession } from "./session.ts";
import { OnnxRuntimeError } from "./status.ts";

const folder = mkdtempSync(join(tmpdir(), "nereid-ort-"));
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
  config: new Map([["session.intra_op.allow_spinning", "0"]]),
  runConfig: new Map(),
  customOpLibraries: [],
};
let files = 0;
async function open(bytes: Uint8Array, options: Partial<SessionOptions> = {}): Promise<OnnxSession> {
  const path = join(folder, `${files++}.onnx`);
  writeFileSync(path, bytes);
  const session = await runtime.createSession(path, { ...OPTIONS, ...options });
  sessions.push(session);
  return session;
}
const f32 = (name: string, shape: number[], values: number[]): Tensor => ({
  name,
  datatype: "FP32",
  shape,
  data: new Uint8Array(Float32Array.from(values).buffer),
});
const floats = (tensor: Tensor | undefined): number[] =>
  Array.from(new Float32Array(Uint8Array.from(tensor?.data ?? []).buffer));
const bytesTensor = (name: string, shape: number[], texts: (string | Uint8Array)[]): Tensor => ({
  name,
  datatype: "BYTES",
  shape,
  data: Buffer.concat(
    texts.map((text) => {
      const body = Buffer.from(text as string);
      const length = Buffer.alloc(4);
      length.writeUInt32LE(body.length);
      return Buffer.concat([length, body]);
    }),
  ),
});

test("the library's version is told", () => {
  assert.match(runtime.version, /^1\.\d+\.\d+/);
});

test("OnnxRuntime names every place searched when there is no library", () => {
  assert.deepEqual(
    onnxRuntimeLibrary("linux", "x64").packages.map(({ name }) => name),
    ["@nereid/onnxruntime-linux-x64", "onnxruntime-node"],
  );
});

test("OnnxRuntime refuses a library that is something else", () => {
  assert.throws(() => new OnnxRuntime({ isVerbose: false }, "libc.so.6"), /OrtGetApiBase/);
});

test("info lists names, types, dimensions and their names in the model's order", async () => {
  const { info } = await open(
    model({
      nodes: [node("Add", ["b", "w"], ["z"]), node("Identity", ["a"], ["y"])],
      inputs: [
        ["b", ONNX_TYPE.FLOAT, ["N", 2, ""]],
        ["a", ONNX_TYPE.INT64, []],
        ["w", ONNX_TYPE.FLOAT, [1]],
      ],
      outputs: [
        ["z", ONNX_TYPE.FLOAT, ["N", 2, "M"]],
        ["y", ONNX_TYPE.INT64, []],
      ],
      initializers: [tensor("w", ONNX_TYPE.FLOAT, [1], new Uint8Array(Float32Array.of(5).buffer))],
    }),
  );
  const flat = (values: typeof info.inputs) =>
    values.map(({ name, elementType, dims, dimNames }) => [name, elementType.name, dims, dimNames]);
  assert.deepEqual(flat(info.inputs), [
    ["b", "FLOAT", [-1, 2, -1], ["N", "", ""]],
    ["a", "INT64", [], []],
  ]);
  assert.deepEqual(flat(info.outputs), [
    ["z", "FLOAT", [-1, 2, -1], ["N", "", "M"]],
    ["y", "INT64", [], []],
  ]);
  assert.deepEqual(flat(info.overridableInitializers), [["w", "FLOAT", [1], [""]]]);
});

test("info tells values that are no tensors", async () => {
  const sequence = messageField(4, [messageField(1, [messageField(1, [intField(1, ONNX_TYPE.FLOAT)])])]);
  const { info } = await open(
    model({
      nodes: [node("SequenceConstruct", ["X"], ["S"])],
      inputs: [["X", ONNX_TYPE.FLOAT, [1]]],
      outputs: [],
      graphExtra: [messageField(12, [bytesField(1, "S"), messageField(2, [sequence])])],
    }),
  );
  assert.deepEqual(
    info.outputs.map(({ name, kind }) => [name, kind]),
    [["S", "SEQUENCE"]],
  );
});

test("metadata() reads the model's notes", async () => {
  const session = await open(
    model({
      nodes: [node("Identity", ["IN"], ["OUT"])],
      inputs: [["IN", ONNX_TYPE.FLOAT, [1]]],
      outputs: [["OUT", ONNX_TYPE.FLOAT, [1]]],
      modelExtra: [
        bytesField(4, "org.example"),
        intField(5, 42),
        bytesField(6, "says żółw"),
        messageField(14, [bytesField(1, "author"), bytesField(2, "nobody")]),
        messageField(14, [bytesField(1, "empty"), bytesField(2, "")]),
      ],
    }),
  );
  assert.deepEqual(session.metadata(), {
    producerName: "nereid-tests",
    graphName: "graph",
    domain: "org.example",
    description: "says żółw",
    version: 42n,
    custom: new Map([
      ["author", "nobody"],
      ["empty", ""],
    ]),
  });
});

const DTYPES: [keyof typeof ONNX_TYPE, Tensor["datatype"], number][] = [
  ["BOOL", "BOOL", 1],
  ["UINT8", "UINT8", 1],
  ["UINT16", "UINT16", 2],
  ["UINT32", "UINT32", 4],
  ["UINT64", "UINT64", 8],
  ["INT8", "INT8", 1],
  ["INT16", "INT16", 2],
  ["INT32", "INT32", 4],
  ["INT64", "INT64", 8],
  ["FLOAT16", "FP16", 2],
  ["FLOAT", "FP32", 4],
  ["DOUBLE", "FP64", 8],
  ["BFLOAT16", "BF16", 2],
];
for (const [onnxType, datatype, size] of DTYPES) {
  test(`run() carries ${datatype}, aligned or not, empty or not, sync or not`, async () => {
    const session = await open(identity(ONNX_TYPE[onnxType], ["M"]));
    for (const count of [0, 1, 3, 1000]) {
      for (const shift of [0, 1]) {
        const bytes = Uint8Array.from({ length: count * size + shift }, (_, index) =>
          datatype === "BOOL" ? index % 2 : index % 100,
        );
        const input: Tensor = { name: "IN", datatype, shape: [count], data: bytes.subarray(shift) };
        const expected: Tensor = { ...input, name: "OUT", data: Buffer.from(input.data) };
        const into = { ...expected, data: Buffer.alloc(count * size) };
        assert.deepEqual(session.run([input], [{ name: "OUT" }]), [expected]);
        assert.deepEqual(await session.runAsync([input], [{ name: "OUT" }]).outputs, [expected]);
        assert.deepEqual(session.run([input], [{ name: "OUT", into }]), [expected]);
      }
    }
  });
}

test("run() carries strings, multibyte, empty and none", async () => {
  const session = await open(identity(ONNX_TYPE.STRING, ["M"]));
  for (const texts of [[], [""], ["hello", "", "zażółć", "😀"], ["x".repeat(100_000), "y"]]) {
    const input = bytesTensor("IN", [texts.length], texts);
    const [output] = session.run([input], [{ name: "OUT" }]);
    assert.deepEqual(output?.shape, [texts.length]);
    assert.deepEqual(Buffer.from(output?.data ?? []), Buffer.from(input.data));
    const [later] = await session.runAsync([input], [{ name: "OUT" }]).outputs;
    assert.deepEqual(Buffer.from(later?.data ?? []), Buffer.from(input.data));
  }
});

test("run() cuts a string at an embedded NUL and keeps bytes that are no UTF-8", async () => {
  const session = await open(identity(ONNX_TYPE.STRING, ["M"]));
  const [output] = session.run([bytesTensor("IN", [2], ["ab\0cd", Uint8Array.of(0xff, 0xfe)])], [{ name: "OUT" }]);
  assert.deepEqual(Buffer.from(output?.data ?? []), Buffer.from([2, 0, 0, 0, 97, 98, 2, 0, 0, 0, 0xff, 0xfe]));
});

test("run() refuses string data that does not hold its elements", async () => {
  const session = await open(identity(ONNX_TYPE.STRING, ["M"]));
  const broken: [number, number[]][] = [
    [1, [1, 0, 0]],
    [1, [5, 0, 0, 0, 97]],
    [2, [1, 0, 0, 0, 97]],
    [1, [255, 255, 255, 255]],
    [0, [0, 0, 0, 0]],
  ];
  for (const [count, bytes] of broken) {
    const input: Tensor = { name: "IN", datatype: "BYTES", shape: [count], data: Uint8Array.from(bytes) };
    assert.throws(() => session.run([input], [{ name: "OUT" }]), RangeError);
  }
});

test("run() carries scalars and several tensors", async () => {
  const scalar = await open(identity(ONNX_TYPE.FLOAT, []));
  const [output] = scalar.run([f32("IN", [], [2.5])], [{ name: "OUT" }]);
  assert.deepEqual([output?.shape, floats(output)], [[], [2.5]]);
  const session = await open(addSub(ONNX_TYPE.FLOAT, ["N", 2]));
  const inputs = [f32("INPUT1", [1, 2], [1, 2]), f32("INPUT0", [1, 2], [10, 20])];
  const outputs = session.run(inputs, [{ name: "OUTPUT1" }, { name: "OUTPUT0" }]);
  assert.deepEqual(
    outputs.map((tensor) => [tensor.name, floats(tensor)]),
    [
      ["OUTPUT1", [9, 18]],
      ["OUTPUT0", [11, 22]],
    ],
  );
});

test("run() replaces an initialiser that may be replaced", async () => {
  const session = await open(
    model({
      nodes: [node("Add", ["X", "w"], ["Y"])],
      inputs: [
        ["X", ONNX_TYPE.FLOAT, [1]],
        ["w", ONNX_TYPE.FLOAT, [1]],
      ],
      outputs: [["Y", ONNX_TYPE.FLOAT, [1]]],
      initializers: [tensor("w", ONNX_TYPE.FLOAT, [1], new Uint8Array(Float32Array.of(5).buffer))],
    }),
  );
  assert.deepEqual(floats(session.run([f32("X", [1], [1])], [{ name: "Y" }])[0]), [6]);
  assert.deepEqual(floats(session.run([f32("X", [1], [1]), f32("w", [1], [7])], [{ name: "Y" }])[0]), [8]);
});

test("run() fails with ONNX Runtime's text and goes on working", async () => {
  const session = await open(addSub(ONNX_TYPE.FLOAT, ["N", 2]));
  const good = [f32("INPUT0", [1, 2], [1, 2]), f32("INPUT1", [1, 2], [1, 2])];
  const bad: [Tensor[], RegExp][] = [
    [[f32("INPUT0", [1, 2], [1, 2])], /Missing Input: INPUT1/],
    [[f32("INPUT0", [2, 2], [1, 2, 3, 4]), f32("INPUT1", [1, 3], [1, 2, 3])], /invalid dimensions|Invalid rank/i],
  ];
  for (const [inputs, text] of bad) {
    assert.throws(
      () => session.run(inputs, [{ name: "OUTPUT0" }]),
      (error) => error instanceof OnnxRuntimeError && text.test(error.message),
    );
    await assert.rejects(session.runAsync(inputs, [{ name: "OUTPUT0" }]).outputs, text);
    assert.deepEqual(floats(session.run(good, [{ name: "OUTPUT0" }])[0]), [2, 4]);
  }
  assert.throws(() => session.run(good, [{ name: "nothing" }]), /no tensor 'nothing'/);
  assert.throws(() => session.run([f32("INPUT0", [1, 2], [1])], []), /has 4 bytes, expected 8/);
});

test("run() refuses an output buffer of the wrong shape", async () => {
  const session = await open(identity(ONNX_TYPE.FLOAT, ["M"]));
  assert.throws(
    () => session.run([f32("IN", [3], [1, 2, 3])], [{ name: "OUT", into: f32("OUT", [2], [0, 0]) }]),
    OnnxRuntimeError,
  );
});

test("runAsync() overlaps two runs of a session while timers tick", async () => {
  const session = await open(matmulChain(256, 40));
  const input = f32("X", [256, 256], new Array<number>(65536).fill(0));
  let ticks = 0;
  let underWay = 0;
  let most = 0;
  const timer = setInterval(() => {
    ticks++;
    most = Math.max(most, underWay);
  }, 1);
  const one = async (): Promise<number> => {
    underWay++;
    const [output] = await session.runAsync([input], [{ name: "Y" }]).outputs;
    underWay--;
    return output?.data.byteLength ?? 0;
  };
  assert.deepEqual(await Promise.all([one(), one(), one()]), [262144, 262144, 262144]);
  clearInterval(timer);
  assert.ok(ticks > 0);
  assert.ok(most > 1);
});

test("terminate() stops a run under way, and the session goes on working", async () => {
  const session = await open(matmulChain(512, 400));
  const input = f32("X", [512, 512], new Array<number>(262144).fill(0));
  const run = session.runAsync([input], [{ name: "Y" }]);
  setTimeout(() => run.terminate(), 20);
  await assert.rejects(run.outputs, (error) => error instanceof OnnxRuntimeError && error.isTermination);
  run.terminate();
  const small = await open(matmulChain(2, 1));
  assert.deepEqual(floats(small.run([f32("X", [2, 2], [1, 0, 0, 1])], [{ name: "Y" }])[0]), [1, 0, 0, 1]);
  const again = session.runAsync([input], [{ name: "Y" }]);
  again.terminate();
  await assert.rejects(again.outputs, /terminate/);
});

test("createSession() refuses files that are no models", async () => {
  const whole = addSub(ONNX_TYPE.FLOAT, ["N", 2]);
  const files: [string, Uint8Array][] = [
    ["empty", new Uint8Array(0)],
    ["text", Buffer.from("this is not a model")],
    ["random", Uint8Array.from({ length: 4096 }, (_, index) => (index * 7919) % 251)],
    ...[1, 10, 50, whole.length - 1].map((length): [string, Uint8Array] => [
      `cut at ${length}`,
      whole.subarray(0, length),
    ]),
  ];
  for (const [what, bytes] of files) {
    await assert.rejects(open(bytes), (error) => error instanceof OnnxRuntimeError && error.code > 0, what);
  }
  await assert.rejects(runtime.createSession("/nowhere/model.onnx", OPTIONS), OnnxRuntimeError);
});

test("createSession() takes every option", async () => {
  const session = await open(identity(ONNX_TYPE.FLOAT, ["M"]), {
    graphLevel: 0,
    isParallel: true,
    intraOpThreads: 2,
    interOpThreads: 2,
    memoryArena: false,
    memoryPattern: false,
    config: new Map([["session.use_device_allocator_for_initializers", "1"]]),
    runConfig: new Map([["memory.enable_memory_arena_shrinkage", ""]]),
  });
  assert.deepEqual(floats(session.run([f32("IN", [1], [3])], [{ name: "OUT" }])[0]), [3]);
  await assert.rejects(open(identity(ONNX_TYPE.FLOAT, ["M"]), { customOpLibraries: ["/nowhere/libops.so"] }), /libops/);
});

test("failing runs leave no memory behind, as they did when the library recorded them for its maker", async () => {
  const session = await open(addSub(ONNX_TYPE.FLOAT, ["N", 2]));
  const fail = (count: number): void => {
    for (let index = 0; index < count; index++) {
      assert.throws(() => session.run([f32("INPUT0", [1, 2], [1, 2])], [{ name: "OUTPUT0" }]), /Missing Input/);
    }
  };
  fail(2_000);
  const before = process.memoryUsage.rss();
  fail(20_000);
  // Recorded failures took some two and a half kilobytes each: 50 MB.
  assert.ok(process.memoryUsage.rss() - before < 30_000_000);
  assert.equal(process.env.ORT_DISABLE_TELEMETRY, "1");
});

test("close() refuses while a run is under way", async () => {
  const path = join(folder, "closing.onnx");
  writeFileSync(path, matmulChain(128, 20));
  const session = await runtime.createSession(path, OPTIONS);
  const run = session.runAsync([f32("X", [128, 128], new Array<number>(16384).fill(0))], [{ name: "Y" }]);
  await assert.rejects(session.close(), /1 runs are under way/);
  await run.outputs;
  await session.close();
});
