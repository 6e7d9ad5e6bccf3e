import assert from "node:assert/strict";
import { test } from "node:test";
import { parseModelConfigText } from "../../config/model/model-config.ts";
import { gpuThreads, runtimeOptions, sessionOptions } from "./session-settings.ts";

const options = (text: string, numCores = 8) =>
  sessionOptions(parseModelConfigText(`name: "m" ${text}`, "config.pbtxt"), numCores);
const parameter = (key: string, value: string): string =>
  `parameters { key: "${key}" value { string_value: "${value}" } }`;

test("sessionOptions() has defaults that leave the cores to the server", () => {
  const spinning = new Map([
    ["session.intra_op.allow_spinning", "0"],
    ["session.inter_op.allow_spinning", "0"],
  ]);
  assert.deepEqual(options(""), {
    graphLevel: 99,
    isParallel: false,
    intraOpThreads: 8,
    interOpThreads: 1,
    memoryArena: undefined,
    memoryPattern: undefined,
    config: spinning,
    runConfig: new Map(),
    providers: [],
    customOpLibraries: [],
  });
});

test("sessionOptions() reads each option", () => {
  const graph = (level: number): string => `optimization { graph { level: ${level} } }`;
  const levels = [-1, 0, 1, 2].map((level) => options(graph(level)).graphLevel);
  assert.deepEqual(levels, [1, 99, 2, 0]);
  assert.equal(options(parameter("execution_mode", "1")).isParallel, true);
  assert.equal(options(parameter("intra_op_thread_count", "3")).intraOpThreads, 3);
  assert.equal(options(parameter("inter_op_thread_count", "3")).interOpThreads, 3);
  assert.equal(options(parameter("enable_mem_arena", "0")).memoryArena, false);
  assert.equal(options(parameter("enable_mem_pattern", "True")).memoryPattern, true);
  const key = "session.use_device_allocator_for_initializers";
  assert.equal(options(parameter(key, "1")).config.get(key), "1");
  const shrinkage = "memory.enable_memory_arena_shrinkage";
  assert.equal(options(parameter(shrinkage, "cpu:0")).runConfig.get(shrinkage), "cpu:0");
  assert.deepEqual(options('model_operations { op_library_filename: [ "a.so" ] }').customOpLibraries, ["a.so"]);
});

test("sessionOptions() divides the cores among the instances", () => {
  const table: [string, number][] = [
    ["instance_group [ { count: 2 } ]", 4],
    ["instance_group [ { count: 2 }, { count: 1 } ]", 2],
    ["instance_group [ { count: 100 } ]", 1],
    [`instance_group [ { count: 2 } ] ${parameter("intra_op_thread_count", "0")}`, 4],
  ];
  for (const [text, threads] of table) assert.equal(options(text).intraOpThreads, threads);
});

test("sessionOptions() asks for OpenVINO's kernels with their options", () => {
  const accelerator = '{ name: "openvino" parameters { key: "num_streams" value: "2" } }';
  const text = `optimization { execution_accelerators { cpu_execution_accelerator [ ${accelerator} ] } }`;
  const expected = new Map([
    ["device_type", "CPU"],
    ["num_streams", "2"],
  ]);
  assert.deepEqual(options(text).providers, [{ kind: "openvino", options: expected }]);
});

test("sessionOptions() refuses what it cannot do", () => {
  const table: [string, string][] = [
    [
      parameter("execution_mode", "2"),
      "Invalid configuration value provided. Expected values for  execution_mode are 0 or 1 but got 2 .",
    ],
    [parameter("intra_op_thread_count", "many"), "failed to convert 'many' to integral number"],
    [parameter("intra_op_thread_count", "99999999999"), "failed to convert '99999999999' to integral number"],
    [parameter("enable_mem_arena", "maybe"), "failed to convert 'maybe' to boolean"],
    [
      'optimization { execution_accelerators { cpu_execution_accelerator [ { name: "tensorrt" } ] } }',
      "unknown Execution Accelerator 'tensorrt' is requested",
    ],
  ];
  for (const [text, message] of table) assert.throws(() => options(text), { code: "invalid_argument", message });
});

test("runtimeOptions() makes one pool for all models when asked to", () => {
  const table: [Record<string, string>, unknown][] = [
    [{}, undefined],
    [{ "enable-global-threadpool": "0", intra_op_thread_count: "3" }, undefined],
    [{ "enable-global-threadpool": "1" }, { intraOp: 0, interOp: 0 }],
    [
      { "enable-global-threadpool": "1", intra_op_thread_count: "3", inter_op_thread_count: "2" },
      { intraOp: 3, interOp: 2 },
    ],
  ];
  for (const [settings, expected] of table) {
    assert.deepEqual(runtimeOptions(new Map(Object.entries(settings))).globalThreads, expected);
  }
});

test("gpuThreads() has one for each instance on a GPU beside that of the caller, and never fewer than runs need", () => {
  const threads = (text: string): number => gpuThreads(parseModelConfigText(`name: "m" ${text}`, "config.pbtxt"));
  const group = "instance_group [ { count: 3 kind: KIND_GPU gpus: [ 0 ] }, { count: 5 kind: KIND_CPU } ]";
  assert.equal(threads(group), 4);
  assert.equal(threads(`${group} ${parameter("intra_op_thread_count", "6")}`), 6);
  assert.equal(threads(`${group} ${parameter("intra_op_thread_count", "1")}`), 2);
  assert.equal(threads(""), 2);
});
