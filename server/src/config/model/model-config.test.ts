import assert from "node:assert/strict";
import { test } from "node:test";
import type { ModelConfig } from "../../core/model-config.ts";
import type { ModelArtifact } from "./backend-fields.ts";
import {
  completeModelConfig,
  defaultMaxBatchSize,
  emptyModelConfig,
  parseModelConfigJson,
  parseModelConfigText,
  prepareModelConfig,
  unknownBackend,
} from "./model-config.ts";
import { modelConfigJson } from "./model-config-json.ts";
import type { DescribedModel } from "./model-description.ts";
import { withDecoupled } from "./normalize.ts";

interface Found {
  readonly text?: string;
  readonly artifacts?: readonly ModelArtifact[];
  readonly description?: DescribedModel;
  readonly gpus?: readonly number[];
  readonly settings?: Readonly<Record<string, string>>;
  readonly autoComplete?: boolean;
  readonly modelName?: string;
  /** In place of `text`. */
  readonly json?: string;
}

function complete({
  text,
  json,
  artifacts,
  description,
  gpus,
  settings,
  autoComplete = true,
  modelName = "m",
}: Found): ModelConfig {
  return completeModelConfig({
    written: json !== undefined ? parseModelConfigJson(json) : parseModelConfigText(text ?? "", "config.pbtxt"),
    modelName,
    artifacts: artifacts ?? [],
    description,
    autoComplete,
    settings: new Map(Object.entries(settings ?? {})),
    gpus: { ids: gpus ?? [], minComputeCapability: 0 },
  });
}

const ONNX_FILE: readonly ModelArtifact[] = [{ name: "model.onnx", isFolder: false }];
const MLP: DescribedModel = {
  canBatch: true,
  inputs: [{ name: "x", dataType: "TYPE_FP32", dims: [-1, 4] }],
  outputs: [{ name: "y", dataType: "TYPE_FP32", dims: [-1, 3] }],
};
const OPTIMIZATION =
  '"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false}';
const GROUP_REST = '"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}]';
const REST = '"cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]';

test("modelConfigJson() prints an ONNX model without configuration byte for byte as users know it", () => {
  const config = complete({ artifacts: ONNX_FILE, description: MLP, modelName: "mlp_auto" });
  assert.equal(
    modelConfigJson(config),
    `{"name":"mlp_auto","platform":"onnxruntime_onnx","backend":"onnxruntime","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":4,"input":[{"name":"x","data_type":"TYPE_FP32","format":"FORMAT_NONE","dims":[4],"is_shape_tensor":false,"allow_ragged_batch":false,"optional":false,"is_non_linear_format_io":false}],"output":[{"name":"y","data_type":"TYPE_FP32","dims":[3],"label_filename":"","is_shape_tensor":false,"is_non_linear_format_io":false}],"batch_input":[],"batch_output":[],${OPTIMIZATION},"dynamic_batching":{"preferred_batch_size":[4],"max_queue_delay_microseconds":0,"preserve_ordering":false,"priority_levels":0,"default_priority_level":0,"priority_queue_policy":{}},"instance_group":[{"name":"mlp_auto","kind":"KIND_CPU","count":2,${GROUP_REST},"default_model_filename":"model.onnx",${REST}}`,
  );
});

test("modelConfigJson() prints numbers of 64 bits with all digits, and is read again as it was", () => {
  const max = "18446744073709551615";
  const text = `backend: "python" max_batch_size: 4 input { name: "X" data_type: TYPE_INT32 dims: 1 }
    output { name: "Y" data_type: TYPE_INT32 dims: 1 } dynamic_batching { priority_levels: ${max} default_priority_level: 9007199254740994
    priority_queue_policy { key: ${max} value { default_timeout_microseconds: ${max} } } }`;
  const printed = modelConfigJson(complete({ text }));
  for (const part of [`"priority_levels":${max},`, '"default_priority_level":9007199254740994,', `"${max}":{`]) {
    assert.ok(printed.includes(part), `${part} in ${printed}`);
  }
  assert.ok(printed.includes(`"default_timeout_microseconds":${max},`), printed);
  assert.equal(modelConfigJson(complete({ json: printed })), printed);
});

test("modelConfigJson() prints sequence batching, priorities and rate limits in full", () => {
  const python = [{ name: "model.py", isFolder: false }];
  const sequence = complete({
    artifacts: python,
    text: 'backend: "python" sequence_batching { control_input { name: "C" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } } }',
  });
  assert.ok(
    modelConfigJson(sequence).includes(
      '"sequence_batching":{"max_sequence_idle_microseconds":1000000,"control_input":[{"name":"C","control":[{"kind":"CONTROL_SEQUENCE_CORRID","int32_false_true":[],"fp32_false_true":[],"bool_false_true":[],"data_type":"TYPE_STRING"}]}],"state":[],"iterative_sequence":false}',
    ),
  );
  const priorities = complete({
    text: 'backend: "python" max_batch_size: 1 dynamic_batching { priority_levels: 3 default_priority_level: 2 priority_queue_policy { key: 3 value { timeout_action: DELAY default_timeout_microseconds: 100000 max_queue_size: 1 } } } instance_group { kind: KIND_CPU rate_limiter { resources { name: "R" count: 2 } priority: 2 } }',
  });
  assert.ok(
    modelConfigJson(priorities).includes(
      '"priority_queue_policy":{"3":{"timeout_action":"DELAY","default_timeout_microseconds":100000,"allow_timeout_override":false,"max_queue_size":1}}',
    ),
  );
  assert.ok(
    modelConfigJson(priorities).includes(
      '{"name":"m_0","kind":"KIND_CPU","count":1,"rate_limiter":{"resources":[{"name":"R","global":false,"count":2}],"priority":2},"gpus":[]',
    ),
  );
});

test("modelConfigJson() keeps some 64-bit integers as text and names infinities", () => {
  const config = parseModelConfigText(
    'instance_group { secondary_devices { device_id: 3 } } optimization { cuda { graph_spec { input { key: "a" value { dim: [1, -1] } } } } } sequence_batching { state { dims: 2 initial_state { dims: 5 } } } model_metrics { metric_control { histogram_options { buckets: inf } } }',
    "config.pbtxt",
  );
  const json = modelConfigJson(config);
  for (const part of ['"device_id":"3"', '"dim":["1","-1"]', '"dims":["5"]', '"dims":[2]', '"buckets":["Infinity"]']) {
    assert.ok(json.includes(part), part);
  }
});

test("completeModelConfig() freezes all of its result", () => {
  const config = complete({ artifacts: ONNX_FILE, description: MLP });
  assert.ok(Object.isFrozen(config));
  assert.ok(Object.isFrozen(config.input[0]?.dims));
  assert.ok(Object.isFrozen(config.dynamic_batching?.priority_queue_policy));
});

const file = (name: string): ModelArtifact[] => [{ name, isFolder: false }];
const folder = (name: string): ModelArtifact[] => [{ name, isFolder: true }];
for (const [text, artifacts, backend, platform, filename] of [
  ["", file("model.onnx"), "onnxruntime", "onnxruntime_onnx", "model.onnx"],
  ["", folder("model.onnx"), "onnxruntime", "onnxruntime_onnx", "model.onnx"],
  ["", file("model.plan"), "tensorrt", "tensorrt_plan", "model.plan"],
  ["", file("model.pt"), "pytorch", "pytorch_libtorch", "model.pt"],
  ["", file("model.pt2"), "pytorch", "torch_aoti", "model.pt2"],
  ["", file("model.xml"), "openvino", "", "model.xml"],
  ["", file("model.py"), "python", "", "model.py"],
  ["", folder("model.savedmodel"), "tensorflow", "tensorflow_savedmodel", "model.savedmodel"],
  ["", file("model.graphdef"), "tensorflow", "tensorflow_graphdef", "model.graphdef"],
  ['platform: "onnxruntime_onnx" default_model_filename: "w.onnx"', [], "onnxruntime", "onnxruntime_onnx", "w.onnx"],
  ['default_model_filename: "model.py"', [], "python", "", "model.py"],
  ['backend: "onnxruntime"', [], "onnxruntime", "onnxruntime_onnx", "model.onnx"],
  ['backend: "python"', file("model.onnx"), "python", "", "model.py"],
  ['backend: "identity"', [], "identity", "", ""],
  ['backend: "llm"', file("model.py"), "llm", "", ""],
] as const) {
  test(`prepareModelConfig() finds ${backend} ${platform} ${filename} by '${text}' and ${artifacts[0]?.name}`, () => {
    const written = parseModelConfigText(text, "config.pbtxt");
    const config = prepareModelConfig({ written, modelName: "m", artifacts, autoComplete: true });
    assert.deepEqual([config.backend, config.platform, config.default_model_filename], [backend, platform, filename]);
    assert.equal(config.name, "m");
  });
}

test("prepareModelConfig() takes the backend from the name of the model as a last resort", () => {
  const config = prepareModelConfig({
    written: emptyModelConfig(),
    modelName: "x.square",
    artifacts: [],
    autoComplete: true,
  });
  assert.deepEqual([config.backend, config.default_model_filename], ["square", "model.square"]);
});

test("prepareModelConfig() refuses a model of which nothing tells the backend", () => {
  assert.throws(() => complete({ modelName: "empty_dir" }), {
    message:
      "Invalid model name: Could not determine backend for model 'empty_dir' with no backend in model configuration. Expected model name of the form 'model.<backend_name>'.",
  });
});

for (const [text, message] of [
  [
    'platform: "onnxruntim" default_model_filename: "model.onnx"',
    /^unexpected 'platform' and 'backend' pair, got:onnxruntim, onnxruntime$/,
  ],
  ['platform: "pytorch_libtorch" default_model_filename: "model.plan"', /pair, got:pytorch_libtorch, tensorrt$/],
  ['platform: "onnx" default_model_filename: "model.pt"', /pair, got:onnx, pytorch$/],
  [
    'platform: "savedmodel" default_model_filename: "model.savedmodel"',
    /^unexpected platform type 'savedmodel' for m$/,
  ],
  ['platform: "onnxruntim"', /^unexpected platform type 'onnxruntim' for m$/],
  ['platform: "onnxruntim" backend: "onnxruntime"', /pair, got:onnxruntim, onnxruntime$/],
] as const) {
  test(`prepareModelConfig() refuses ${text}, also beside a model.onnx`, () => {
    for (const artifacts of [[], ONNX_FILE]) {
      assert.throws(() => complete({ text, artifacts, modelName: "m" }), { code: "invalid_argument", message });
    }
  });
}

test("prepareModelConfig() refuses a name that is not that of the folder", () => {
  assert.throws(() => complete({ text: 'name: "other_name" backend: "identity"', modelName: "wrong_name" }), {
    code: "invalid_argument",
    message: "unexpected directory name 'wrong_name' for model 'other_name', directory name must equal model name",
  });
});

test("prepareModelConfig() judges tensors only when nothing will complete them", () => {
  const written = parseModelConfigText('backend: "onnxruntime" input { name: "x" }', "config.pbtxt");
  const found = { written, modelName: "m", artifacts: [] };
  assert.equal(prepareModelConfig({ ...found, autoComplete: true }).input.length, 1);
  assert.throws(
    () => prepareModelConfig({ ...found, autoComplete: false }),
    /model input 'x' must specify 'data_type' for m/,
  );
});

test("completeModelConfig() completes what is missing and keeps what is written", () => {
  const config = complete({
    text: 'max_batch_size: 6 output { name: "y" data_type: TYPE_FP32 dims: 3 label_filename: "names.txt" }',
    artifacts: ONNX_FILE,
    description: MLP,
  });
  assert.equal(config.max_batch_size, 6);
  assert.deepEqual(
    config.input.map(({ name, dims }) => [name, dims]),
    [["x", [4]]],
  );
  assert.equal(config.output[0]?.label_filename, "names.txt");
  assert.deepEqual(config.dynamic_batching?.preferred_batch_size, [6]);
});

test("completeModelConfig() completes nothing when inputs and outputs are written", () => {
  const io =
    'input { name: "x" data_type: TYPE_FP32 dims: [-1, 4] } output { name: "y" data_type: TYPE_FP32 dims: [-1, 3] }';
  const config = complete({ text: io, artifacts: ONNX_FILE, description: MLP });
  assert.equal(config.max_batch_size, 0);
  assert.equal(config.dynamic_batching, undefined);
});

test("completeModelConfig() completes nothing when auto-complete is off", () => {
  const config = complete({ text: 'backend: "onnxruntime"', description: MLP, autoComplete: false });
  assert.deepEqual([config.max_batch_size, config.input], [0, []]);
  assert.equal(config.platform, "onnxruntime_onnx");
});

for (const [setting, batchSize, isBatching] of [
  ["16", 16, true],
  ["1", 1, false],
  ["0", 0, false],
  ["-3", 0, false],
] as const) {
  test(`completeModelConfig() makes batches of ${batchSize} when the setting is ${setting}`, () => {
    const config = complete({
      artifacts: ONNX_FILE,
      description: MLP,
      settings: { "default-max-batch-size": setting },
    });
    assert.equal(config.max_batch_size, batchSize);
    assert.equal(config.dynamic_batching !== undefined, isBatching);
    assert.deepEqual(config.input[0]?.dims, batchSize === 0 ? [-1, 4] : [4]);
  });
}

test("defaultMaxBatchSize() refuses what is no integer", () => {
  assert.equal(defaultMaxBatchSize(new Map()), 4);
  assert.throws(
    () => defaultMaxBatchSize(new Map([["default-max-batch-size", "many"]])),
    /expects an integer, got 'many'/,
  );
});

test("completeModelConfig() refuses a batch size for a model that cannot batch", () => {
  const fixed: DescribedModel = { ...MLP, canBatch: false };
  assert.throws(() => complete({ text: "max_batch_size: 2", artifacts: ONNX_FILE, description: fixed }), {
    message:
      "autofill failed for model 'm': model does not support batching while non-zero max_batch_size is specified",
  });
});

test("completeModelConfig() shows a tensor without dimensions as one element", () => {
  const scalar = (dims: readonly number[], canBatch: boolean): DescribedModel => ({
    canBatch,
    inputs: [{ name: "x", dataType: "TYPE_FP32", dims }],
    outputs: [{ name: "y", dataType: "TYPE_FP32", dims }],
  });
  const batched = complete({ artifacts: ONNX_FILE, description: scalar([-1], true) });
  assert.deepEqual([batched.input[0]?.dims, batched.input[0]?.reshape], [[1], { shape: [] }]);
  const single = complete({ artifacts: ONNX_FILE, description: scalar([], false) });
  assert.deepEqual([single.input[0]?.dims, single.input[0]?.reshape], [[1], undefined]);
});

test("completeModelConfig() follows what the code of a model chose", () => {
  const description: DescribedModel = {
    canBatch: true,
    maxBatchSize: 3,
    dynamicBatching: true,
    decoupled: true,
    addsTensors: true,
    inputs: [
      { name: "P", dataType: "TYPE_FP32", dims: [-1, 2] },
      { name: "Q", dataType: "TYPE_STRING", dims: [-1, -1], optional: true },
    ],
    outputs: [{ name: "R", dataType: "TYPE_FP32", dims: [-1, 2] }],
  };
  const text = 'backend: "python" input { name: "P" data_type: TYPE_FP32 dims: 2 }';
  const config = complete({ text, description });
  assert.deepEqual(
    config.input.map(({ name, dims, optional }) => [name, dims, optional]),
    [
      ["P", [2], false],
      ["Q", [-1], true],
    ],
  );
  assert.deepEqual([config.max_batch_size, config.dynamic_batching?.preferred_batch_size], [3, [3]]);
  assert.equal(config.model_transaction_policy?.decoupled, true);
});

for (const [written, expected] of [
  ['name: "R"', ["TYPE_FP32", [2, 3]]],
  ['name: "R" data_type: TYPE_INT8', ["TYPE_INT8", [2, 3]]],
  ['name: "R" dims: 6', ["TYPE_FP32", [6]]],
  ['name: "R" dims: 6 data_type: TYPE_INT8', ["TYPE_INT8", [6]]],
] as const) {
  test(`completeModelConfig() completes { ${written} } from the code of a model`, () => {
    const tensor = { name: "R", dataType: "TYPE_FP32", dims: [2, 3] } as const;
    const other = { name: "S", dataType: "TYPE_BOOL", dims: [1] } as const;
    const description = { canBatch: false, addsTensors: true, inputs: [tensor, other], outputs: [tensor, other] };
    const config = complete({ text: `backend: "python" input { ${written} } output { ${written} }`, description });
    for (const tensors of [config.input, config.output]) {
      assert.deepEqual(
        tensors.map(({ name, data_type, dims }) => [name, data_type, dims]),
        [
          ["R", ...expected],
          ["S", "TYPE_BOOL", [1]],
        ],
      );
    }
  });
}

test("completeModelConfig() keeps a chosen scheduler", () => {
  const text = 'backend: "onnxruntime" max_batch_size: 4 sequence_batching { oldest { } }';
  const config = complete({ text, description: MLP });
  assert.equal(config.dynamic_batching, undefined);
  assert.deepEqual(config.sequence_batching?.oldest?.preferred_batch_size, [4]);
  assert.equal(config.sequence_batching?.max_sequence_idle_microseconds, 1_000_000);
});

for (const [text, gpus, expected] of [
  ['backend: "onnxruntime"', [], [["m", "KIND_CPU", 2, []]]],
  ['backend: "python"', [], [["m", "KIND_CPU", 1, []]]],
  ['backend: "onnxruntime"', [0, 1], [["m", "KIND_GPU", 1, [0, 1]]]],
  ['backend: "onnxruntime" instance_group { gpus: 1 }', [0, 1], [["m_0", "KIND_GPU", 1, [1]]]],
  [
    'backend: "onnxruntime" instance_group { count: 3 } instance_group { name: "g" kind: KIND_MODEL }',
    [],
    [
      ["m_0", "KIND_CPU", 3, []],
      ["g", "KIND_MODEL", 1, []],
    ],
  ],
] as const) {
  test(`completeModelConfig() settles the instances of ${text} with GPUs [${gpus}]`, () => {
    const groups = complete({ text, gpus }).instance_group;
    assert.deepEqual(
      groups.map(({ name, kind, count, gpus: ids }) => [name, kind, count, ids]),
      expected,
    );
  });
}

test("completeModelConfig() leaves an ensemble without instances and optimization, and not decoupled", () => {
  const text = `platform: "ensemble" input { name: "A" data_type: TYPE_INT32 dims: 4 } output { name: "B" data_type: TYPE_INT32 dims: 4 }
    ensemble_scheduling { step [ { model_name: "a" model_version: -1 input_map { key: "X" value: "A" } output_map { key: "Y" value: "B" } } ] }`;
  const config = complete({ text });
  assert.deepEqual([config.instance_group, config.optimization, config.backend], [[], undefined, ""]);
  assert.deepEqual(config.model_transaction_policy, { decoupled: false });
  assert.deepEqual(withDecoupled(config, true).model_transaction_policy, { decoupled: true });
});

test("parseModelConfigJson() reads back what modelConfigJson() prints", () => {
  const config = complete({ artifacts: ONNX_FILE, description: MLP });
  assert.equal(modelConfigJson(parseModelConfigJson(modelConfigJson(config))), modelConfigJson(config));
});

test("unknownBackend() names the backend and the way out", () => {
  assert.equal(
    unknownBackend("nosuchbackend").message,
    "unable to find backend library for backend 'nosuchbackend', try specifying runtime on the model configuration.",
  );
});
