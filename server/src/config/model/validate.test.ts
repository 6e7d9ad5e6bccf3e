import assert from "node:assert/strict";
import { test } from "node:test";
import type { ModelConfig } from "../../core/model-config.ts";
import { parseModelConfigText } from "./model-config.ts";
import { normalizeInstanceGroups, normalizeModelConfig } from "./normalize.ts";
import { validateModelConfig } from "./validate.ts";
import { validateInstanceGroups } from "./validate-instances.ts";
import { validateModelIo } from "./validate-io.ts";

const BASE = 'name: "m" backend: "custom" max_batch_size: 4';
const VERSION = "version_policy { latest { num_versions: 1 } }";

function config(text: string): ModelConfig {
  return parseModelConfigText(text, "config.pbtxt");
}

function refuses(check: (config: ModelConfig) => void, text: string, message: string): void {
  assert.throws(() => check(config(text)), { code: "invalid_argument", message });
}

const MODEL_RULES: readonly (readonly [text: string, message: string])[] = [
  ['backend: "custom"', "model configuration must specify 'name'"],
  ['name: "m"', "must specify 'platform' or 'backend' for 'm'."],
  ['name: "m" platform: "caffe"', "unexpected platform type 'caffe' for m"],
  [
    'name: "m" platform: "ensemble" backend: "custom"',
    "Ensemble model 'm' must have platform type 'ensemble' and empty backend type",
  ],
  [
    'name: "m" platform: "tensorrt_plan" backend: "onnxruntime"',
    "unexpected 'platform' and 'backend' pair, got:tensorrt_plan, onnxruntime",
  ],
  ['name: "m" backend: "custom" max_batch_size: -1', "'max_batch_size' must be non-negative value for m"],
  [BASE, "must specify 'version policy' for m"],
  [
    `${BASE} ${VERSION} dynamic_batching { preferred_batch_size: 0 }`,
    "dynamic batching preferred size must be positive for m",
  ],
  [
    `${BASE} ${VERSION} dynamic_batching { preferred_batch_size: 5 }`,
    "dynamic batching preferred size must be <= max batch size for m",
  ],
  [
    `${BASE} ${VERSION} dynamic_batching { priority_levels: 2 }`,
    "default priority level must be in range [1, 2] for m",
  ],
  [
    `${BASE} ${VERSION} dynamic_batching { priority_levels: 2 default_priority_level: 3 }`,
    "default priority level must be in range [1, 2] for m",
  ],
  [
    `${BASE} ${VERSION} dynamic_batching { priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 3 value {} } }`,
    "priority queue policy must have priority level in range [1, 2] for m",
  ],
  [
    `${BASE} ${VERSION} dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 1 }`,
    "Only one priority level is allowed when 'preserve_ordering' is true for m",
  ],
  [
    `${BASE} ${VERSION} dynamic_batching { preserve_ordering: true default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 1 } }`,
    "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for m",
  ],
  [
    `${BASE} ${VERSION} dynamic_batching { preserve_ordering: true priority_levels: 1 default_priority_level: 1 priority_queue_policy { key: 1 value { timeout_action: DELAY default_timeout_microseconds: 1 } } }`,
    "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for m",
  ],
  [
    `${BASE} ${VERSION} model_transaction_policy { decoupled: true } response_cache { enable: true }`,
    "Response Cache does not currently support model m with 'decoupled' transaction policy. Please disable the response cache.",
  ],
  [`${BASE} ${VERSION} model_metrics { metric_control { } }`, "metric control must specify 'metric_identifier'"],
  [
    `${BASE} ${VERSION} model_metrics { metric_control { metric_identifier { } } }`,
    "metric identifier must specify non-empty 'family'",
  ],
  [
    `${BASE} ${VERSION} model_metrics { metric_control { metric_identifier { family: "f" } } }`,
    "metric control must specify 'histogram_options'",
  ],
  [
    `${BASE} ${VERSION} model_metrics { metric_control { metric_identifier { family: "f" } histogram_options { } } }`,
    "histogram options must specify non-empty 'buckets'",
  ],
  [
    `name: "m" platform: "ensemble" ${VERSION}`,
    "ensemble scheduling must be set for ensemble m whose platform is ensemble",
  ],
];

for (const [text, message] of MODEL_RULES) {
  test(`validateModelConfig() says: ${message} (${text.slice(-40)})`, () =>
    refuses(validateModelConfig, text, message));
}

const START = "CONTROL_SEQUENCE_START";
const SEQUENCE_RULES: readonly (readonly [block: string, message: string])[] = [
  ["control_input { }", "sequence batching control tensor must have a name for m"],
  [
    'control_input { name: "a" } control_input { name: "a" }',
    "sequence batching control tensor 'a' is specified for multiple control kinds for m",
  ],
  [
    `control_input { name: "a" control [ { kind: ${START} int32_false_true: [0,1] }, { kind: ${START} int32_false_true: [0,1] } ] }`,
    "sequence batching specifies multiple CONTROL_SEQUENCE_START tensors for m",
  ],
  [
    `control_input { name: "a" control { kind: ${START} } }`,
    "sequence batching must specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for CONTROL_SEQUENCE_START for m",
  ],
  [
    'control_input { name: "a" control { kind: CONTROL_SEQUENCE_END int32_false_true: [0,1] fp32_false_true: [0,1] } }',
    "sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' and 'bool_false_true' for CONTROL_SEQUENCE_END for m",
  ],
  [
    'control_input { name: "a" control { kind: CONTROL_SEQUENCE_READY bool_false_true: [false] } }',
    "sequence batching control 'bool_false_true' must have exactly 2 entries for CONTROL_SEQUENCE_READY for m",
  ],
  [
    'control_input { name: "a" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 int32_false_true: [0,1] } }',
    "sequence batching must not specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for CONTROL_SEQUENCE_CORRID for m",
  ],
  [
    'control_input { name: "a" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_FP32 } }',
    "unexpected data type for control CONTROL_SEQUENCE_CORRID for m. Allowed data types are TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING",
  ],
  ["oldest { preferred_batch_size: -1 }", "sequence batching preferred batch size must be positive for m"],
  ["oldest { preferred_batch_size: 5 }", "sequence batching preferred batch size must be <= max batch size for m"],
  [
    "direct { minimum_slot_utilization: 1.5 }",
    "sequence batching minimum slot utilization must be in range (0.0, 1.0] for m",
  ],
  [
    "direct { minimum_slot_utilization: nan }",
    "sequence batching minimum slot utilization must be in range (0.0, 1.0] for m",
  ],
];

for (const [block, message] of SEQUENCE_RULES) {
  test(`validateModelConfig() says: ${message} (${block.slice(0, 30)})`, () => {
    refuses(validateModelConfig, `${BASE} ${VERSION} sequence_batching { ${block} }`, message);
  });
}

test("validateModelConfig() refuses a response cache beside sequence batching", () => {
  refuses(
    validateModelConfig,
    `${BASE} ${VERSION} sequence_batching { } response_cache { enable: true }`,
    "Response Cache does not currently support model m with sequence batching scheduler. Please disable the response cache.",
  );
});

const STEP = 'step { model_name: "a" input_map { key: "X" value: "IN" } output_map { key: "Y" value: "OUT" } }';
const ENSEMBLE_RULES: readonly (readonly [text: string, message: string])[] = [
  [
    `backend: "custom" ensemble_scheduling { ${STEP} }`,
    "ensemble scheduling cannot be set for model 'e' whose platform is not ensemble",
  ],
  [
    `platform: "ensemble" ensemble_scheduling { ${STEP} } instance_group { }`,
    "instance group should not be specified for ensemble 'e'",
  ],
  [
    `platform: "ensemble" ensemble_scheduling { ${STEP} } optimization { }`,
    "optimization should not be specified for ensemble 'e'",
  ],
  [
    `platform: "ensemble" ensemble_scheduling { ${STEP} } model_warmup { }`,
    "model_warmup can not be specified for ensemble 'e'",
  ],
  ['platform: "ensemble" ensemble_scheduling { }', "must specify 'step' for ensemble 'e'"],
  ['platform: "ensemble" ensemble_scheduling { step { } }', "must specify 'model_name' in step 0 of ensemble 'e'"],
  [
    'platform: "ensemble" ensemble_scheduling { step { model_name: "a" } }',
    "must specify 'input_map' in step 0 of ensemble 'e'",
  ],
  [
    'platform: "ensemble" ensemble_scheduling { step { model_name: "a" input_map { key: "X" value: "IN" } } }',
    "must specify 'output_map' in step 0 of ensemble 'e'",
  ],
  [
    `platform: "ensemble" ensemble_scheduling { ${STEP} ${STEP} }`,
    "ensemble tensor 'OUT' can appear in an output map only once for ensemble 'e' step 1",
  ],
  [
    `platform: "ensemble" input { name: "Z" } ensemble_scheduling { ${STEP} }`,
    "ensemble input 'Z' for ensemble e' is not used",
  ],
  [
    `platform: "ensemble" input { name: "IN" } output { name: "Z" } ensemble_scheduling { ${STEP} }`,
    "ensemble output 'Z' for ensemble e' is not used",
  ],
  [
    `platform: "ensemble" output { name: "OUT" } ensemble_scheduling { ${STEP} }`,
    "output 'OUT' for ensemble 'e' is not written: at least one of its depending tensors, 'IN', is not connected",
  ],
  [
    `platform: "ensemble" input { name: "IN" } ensemble_scheduling { ${STEP} }`,
    "ensemble tensor 'OUT' is unused in ensemble 'e'",
  ],
  [
    'platform: "ensemble" output { name: "A" } ensemble_scheduling { step { model_name: "a" input_map { key: "X" value: "B" } output_map { key: "Y" value: "A" } } step { model_name: "b" input_map { key: "X" value: "A" } output_map { key: "Y" value: "B" } } }',
    "output 'A' for ensemble 'e' is not written",
  ],
];

for (const [text, message] of ENSEMBLE_RULES) {
  test(`validateModelConfig() says: ${message}`, () => {
    const check = () => validateModelConfig(config(`name: "e" ${VERSION} ${text}`));
    assert.throws(check, (error: Error) => error.message.startsWith(message));
  });
}

const IO_RULES: readonly (readonly [text: string, message: string])[] = [
  ["input { }", "model input must specify 'name' for m"],
  ['output { name: "o" }', "model output 'o' must specify 'data_type' for m"],
  ['input { name: "i" data_type: TYPE_FP32 }', "model input 'i' must specify 'dims' for m"],
  [
    'input { name: "i" data_type: TYPE_FP32 dims: 0 }',
    "model input 'i' dimension must be integer >= 1, or -1 to indicate a variable-size dimension for m",
  ],
  [
    'input { name: "i" data_type: TYPE_FP32 dims: 1 reshape { shape: -2 } }',
    "model input 'i' reshape dimensions must be integer >= 1, or -1 to indicate a variable-size dimension for m",
  ],
  [
    'input { name: "i" data_type: TYPE_FP32 dims: 2 reshape { } }',
    "model input 'i' has different size for dims and reshape for m",
  ],
  [
    'input { name: "i" data_type: TYPE_FP32 dims: -1 reshape { shape: 1 } }',
    "model input 'i' has different size for dims and reshape for m",
  ],
  [
    'output { name: "o" data_type: TYPE_FP32 dims: [-1, -1] reshape { shape: -1 } }',
    "model output 'o' has different number of variable-size dimensions for dims and reshape for m",
  ],
  [
    'input { name: "i" data_type: TYPE_FP32 dims: [2, -1, 3] reshape { shape: [3, -1, 2] } }',
    "model input 'i' has different size for dims and reshape for m",
  ],
  [
    'input { name: "i" data_type: TYPE_FP32 dims: 3 format: FORMAT_NCHW }',
    "model input NHWC/NCHW require 3 dims for m",
  ],
  [
    'input { name: "i" data_type: TYPE_INT32 dims: 3 is_shape_tensor: true }',
    "shape tensors are only supported for TensorRT platform for m",
  ],
  [
    'output { name: "i" data_type: TYPE_INT32 dims: 3 is_non_linear_format_io: true }',
    "Non-linear IO format is only supported for the TensorRT platform for m",
  ],
  [
    'platform: "tensorrt_plan" output { name: "i" data_type: TYPE_INT32 dims: 3 is_non_linear_format_io: true }',
    "Non-linear IO format output requires 3 dims for m",
  ],
  ["batch_input { }", "batch input kind 'BATCH_ELEMENT_COUNT' expects 1 source input, got 0 for m"],
  ['batch_input { source_input: "i" }', "batch input data type must be TYPE_INT32 or TYPE_FP32 for m"],
  ['batch_input { source_input: "i" data_type: TYPE_FP32 }', "unknown source input name 'i' for m"],
  ["batch_output { }", "batch output kind 'BATCH_SCATTER_WITH_INPUT_SHAPE' expects 1 source input, got 0 for m"],
  [
    'input { name: "i" data_type: TYPE_FP32 dims: 1 } batch_output { source_input: "i" target_name: "o" }',
    "unknown target output name 'o' for m",
  ],
  [
    'input { name: "i" data_type: TYPE_FP32 dims: 1 } output { name: "o" data_type: TYPE_FP32 dims: 1 } batch_output { source_input: "i" target_name: ["o", "o"] }',
    "target output name 'o' can only be specified once for m",
  ],
];

for (const [text, message] of IO_RULES) {
  test(`validateModelIo() says: ${message} (${text.slice(-30)})`, () =>
    refuses(validateModelIo, `name: "m" max_batch_size: 1 ${text}`, message));
}

test("validateModelIo() refuses an empty reshape of a model that does not batch", () => {
  refuses(
    validateModelIo,
    'name: "m" input { name: "i" data_type: TYPE_FP32 dims: 1 reshape { } }',
    "model input 'i' cannot have empty reshape for non-batching model as scalar tensors are not supported for m",
  );
});

for (const text of [
  'input { name: "i" data_type: TYPE_FP32 dims: 1 reshape { } }',
  'input { name: "i" data_type: TYPE_FP32 dims: [2, 4, -1, 6] reshape { shape: [8, -1, 1, 6] } }',
  'input { name: "i" data_type: TYPE_FP32 dims: [3, 2, 2] format: FORMAT_NHWC }',
]) {
  test(`validateModelIo() accepts ${text}`, () => validateModelIo(config(`name: "m" max_batch_size: 1 ${text}`)));
}

const GROUP_RULES: readonly (readonly [group: string, gpus: readonly number[], message: string])[] = [
  ["kind: KIND_GPU", [], "instance group m_0 of model m has kind KIND_GPU but server does not support GPUs"],
  [
    "kind: KIND_GPU gpus: 7",
    [0, 1],
    "instance group m_0 of model m specifies invalid or unsupported gpu id 7. GPUs with at least the minimum required CUDA compute compatibility of 7.500000 are: 0, 1",
  ],
  ["kind: KIND_CPU gpus: 0", [0], "instance group m_0 of model m has kind KIND_CPU but specifies one or more GPUs"],
  ["kind: KIND_MODEL gpus: 0", [0], "instance group m_0 of model m has kind KIND_MODEL but specifies one or more GPUs"],
  [
    'profile: "0"',
    [],
    "instance group m_0 of model m and platform specifies profile field which is only supported for TensorRT models",
  ],
];

for (const [group, ids, message] of GROUP_RULES) {
  test(`validateInstanceGroups() says: ${message}`, () => {
    const normalized = normalizeInstanceGroups(config(`${BASE} instance_group { ${group} }`), ids);
    assert.throws(() => validateInstanceGroups(normalized, { ids, minComputeCapability: 7.5 }), {
      code: "invalid_argument",
      message,
    });
  });
}

test("validateInstanceGroups() refuses a profile that is no number", () => {
  const trt = config('name: "m" platform: "tensorrt_plan" instance_group { kind: KIND_CPU profile: "x" }');
  assert.throws(
    () => validateInstanceGroups(normalizeInstanceGroups(trt, []), { ids: [], minComputeCapability: 0 }),
    /specifies invalid profile x\. The field should contain/,
  );
});

test("validateInstanceGroups() refuses a model without any group and one that was not normalised", () => {
  const gpus = { ids: [], minComputeCapability: 0 };
  assert.throws(() => validateInstanceGroups(config(BASE), gpus), /must specify one or more 'instance group's for m/);
  assert.throws(() => validateInstanceGroups(config(`${BASE} instance_group { }`), gpus), { code: "internal" });
});

test("normalizeModelConfig() makes a configuration that validateModelConfig() accepts", () => {
  validateModelConfig(normalizeModelConfig(config(`${BASE} dynamic_batching { }`)));
});
