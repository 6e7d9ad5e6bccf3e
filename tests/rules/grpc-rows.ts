/**
 * Refusals over gRPC: codes and words. Source: SetInferenceRequestMetadata, ParseSharedMemoryParams, ParseClassificationParams and
 * InferGRPCToInput of Triton 2.70 (server/src/grpc), GetModelVersionFromString (server/src/common.cc).
 */

/** `says`: the message of the status, or the whole response as JSON. */
export type GrpcRow = readonly [rule: string, rpc: string, request: object, code: number, says: string];

const INVALID = 3;
const ABSENT = 5;
const UNIMPLEMENTED = 12;
const BYTES = Buffer.from(Int32Array.of(7, 8, 9).buffer);
const INPUTS = ["LEFT", "RIGHT"].map((name) => ({ name, datatype: "INT32", shape: [1, 3] }));

function pair(changes: object = {}, first: object = {}): object {
  return {
    model_name: "pair",
    inputs: [{ ...INPUTS[0], ...first }, INPUTS[1]],
    raw_input_contents: [BYTES, BYTES],
    ...changes,
  };
}

const parameter = (key: string, value: object): object => pair({ parameters: { [key]: value } });
const output = (parameters: object): object => pair({ outputs: [{ name: "SUM", parameters }] });
const typed = (datatype: string, contents: object): object => ({
  model_name: "reals",
  inputs: [{ name: "X", datatype, shape: [1], contents }],
});
const WRONG = (key: string, expected: string): string =>
  `invalid value type for '${key}' parameter, expected ${expected}.`;
const REGION = { shared_memory_region: { string_param: "r" } };
const NO_VERSION = (text: string): string =>
  `failed to get model version from specified version string '${text}' (details: stol), version should be an integral value > 0`;

export const GRPC_ROWS: readonly GrpcRow[] = [
  [
    "a sequence id as a flag",
    "ModelInfer",
    parameter("sequence_id", { bool_param: false }),
    INVALID,
    WRONG("sequence_id", "int64_param or string_param"),
  ],
  [
    "a sequence id as uint64",
    "ModelInfer",
    parameter("sequence_id", { uint64_param: 4 }),
    INVALID,
    WRONG("sequence_id", "int64_param or string_param"),
  ],
  [
    "a sequence id of 129 bytes",
    "ModelInfer",
    parameter("sequence_id", { string_param: `${"ü".repeat(64)}x` }),
    UNIMPLEMENTED,
    "string correlation ID cannot be longer than 128 characters",
  ],
  [
    "a sequence flag as a text",
    "ModelInfer",
    parameter("sequence_start", { string_param: "true" }),
    INVALID,
    WRONG("sequence_start", "bool_param"),
  ],
  [
    "the end of a sequence as a number",
    "ModelInfer",
    parameter("sequence_end", { int64_param: 1 }),
    INVALID,
    WRONG("sequence_end", "bool_param"),
  ],
  [
    "a priority below 0",
    "ModelInfer",
    parameter("priority", { int64_param: -3 }),
    INVALID,
    "invalid value for 'priority', expected value >= 0.",
  ],
  [
    "a priority as a double",
    "ModelInfer",
    parameter("priority", { double_param: 1 }),
    INVALID,
    WRONG("priority", "int64_param or uint64_param"),
  ],
  [
    "a timeout as uint64",
    "ModelInfer",
    parameter("timeout", { uint64_param: 9 }),
    INVALID,
    WRONG("timeout", "int64_param"),
  ],
  [
    "a reserved parameter",
    "ModelInfer",
    parameter("triton_mode", { bool_param: true }),
    INVALID,
    "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting with 'triton_' are allowed: triton_enable_empty_final_response",
  ],
  [
    "the empty final response as a number",
    "ModelInfer",
    parameter("triton_enable_empty_final_response", { int64_param: 1 }),
    INVALID,
    WRONG("triton_enable_empty_final_response", "bool_param"),
  ],
  [
    "a custom parameter as uint64",
    "ModelInfer",
    parameter("mode", { uint64_param: 9 }),
    INVALID,
    WRONG("mode", "int64_param, bool_param, or string_param"),
  ],
  [
    "a custom parameter without a value",
    "ModelInfer",
    parameter("mode", {}),
    INVALID,
    WRONG("mode", "int64_param, bool_param, or string_param"),
  ],
  [
    "classes as a text",
    "ModelInfer",
    output({ classification: { string_param: "2" } }),
    INVALID,
    "invalid value type for 'classification' parameter, expected int64_param",
  ],
  [
    "no classes",
    "ModelInfer",
    output({ classification: { int64_param: 0 } }),
    INVALID,
    "invalid value for 'classification' parameter, expected >= 0",
  ],
  [
    "an output region as a number",
    "ModelInfer",
    output({ shared_memory_region: { int64_param: 1 } }),
    INVALID,
    "invalid value type for 'shared_memory_region' parameter for tensor 'SUM', expected string_param.",
  ],
  [
    "an output region without a size",
    "ModelInfer",
    output(REGION),
    INVALID,
    "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor 'SUM'",
  ],
  [
    "an offset without a region",
    "ModelInfer",
    output({ shared_memory_offset: { int64_param: 1 } }),
    INVALID,
    "'shared_memory_offset' can not be specified without 'shared_memory_region' parameter for tensor 'SUM'",
  ],
  [
    "a size without a region",
    "ModelInfer",
    output({ shared_memory_byte_size: { int64_param: 1 } }),
    INVALID,
    "'shared_memory_byte_size' can not be specified without 'shared_memory_region' parameter for tensor 'SUM'",
  ],
  [
    "an unknown region",
    "ModelInfer",
    output({ ...REGION, shared_memory_byte_size: { int64_param: 1 } }),
    ABSENT,
    "Unable to find shared memory region: 'r'",
  ],
  [
    "an output twice",
    "ModelInfer",
    pair({ id: "t", outputs: [{ name: "SUM" }, { name: "SUM" }] }),
    INVALID,
    "[request id: t] output 'SUM' already exists in request",
  ],
  [
    "an output that is none",
    "ModelInfer",
    pair({ outputs: [{ name: "TOTAL" }] }),
    INVALID,
    "unexpected inference output 'TOTAL' for model 'pair'",
  ],
  [
    "an input twice, before its data",
    "ModelInfer",
    pair({ raw_input_contents: [] }, { name: "RIGHT" }),
    INVALID,
    "[request id: <id_unknown>] input 'RIGHT' already exists in request",
  ],
  [
    "an input without data",
    "ModelInfer",
    pair({ raw_input_contents: [BYTES] }),
    INVALID,
    "unable to find data for input tensor 'RIGHT' for model 'pair' in request.",
  ],
  [
    "contents beside raw contents",
    "ModelInfer",
    pair({}, { contents: { int_contents: [1, 2, 3] } }),
    INVALID,
    "contents field must not be specified when using raw_input_contents for 'LEFT' for model 'pair'",
  ],
  [
    "a datatype that is none",
    "ModelInfer",
    pair({}, { datatype: "INT" }),
    INVALID,
    "[request id: <id_unknown>] inference input 'LEFT' data-type is '<invalid>', but model 'pair' expects 'INT32'",
  ],
  [
    "a batch below 0",
    "ModelInfer",
    pair({}, { shape: [1, -1] }),
    INVALID,
    "[request id: <id_unknown>] All input dimensions should be specified for input 'LEFT' for model 'pair', got [1,-1]",
  ],
  [
    "contents of another type",
    "ModelInfer",
    typed("FP64", { fp32_contents: [1] }),
    INVALID,
    "unexpected explicit tensor data for input tensor 'X' for model 'reals' of type 'FP32', expected datatype 'FP64'",
  ],
  [
    "contents of a datatype that is none",
    "ModelInfer",
    typed("REAL", { bool_contents: [true] }),
    INVALID,
    "unexpected explicit tensor data for input tensor 'X' for model 'reals' of type 'BOOL', expected datatype '<invalid>'",
  ],
  [
    "two kinds of contents",
    "ModelInfer",
    typed("FP64", { fp64_contents: [1], bytes_contents: [BYTES] }),
    INVALID,
    "unexpected explicit tensor data for input tensor 'X' for model 'reals', binary data was already supplied.",
  ],
  [
    "version 0",
    "ModelInfer",
    pair({ model_version: "0" }),
    ABSENT,
    "Request for unknown model: 'pair' version 0 is not found",
  ],
  [
    "a version below 0",
    "ModelInfer",
    pair({ model_version: "-4" }),
    INVALID,
    "invalid model version specified '-4' , version should be an integral value > 0",
  ],
  ["a version in words", "ModelInfer", pair({ model_version: "one" }), INVALID, NO_VERSION("one")],
  ["version 0 is not ready", "ModelReady", { name: "pair", version: "0" }, 0, "{}"],
  ["a version with letters behind it", "ModelReady", { name: "pair", version: "1st" }, 0, '{"ready":true}'],
  [
    "a version below 0 is refused",
    "ModelReady",
    { name: "pair", version: "-1" },
    INVALID,
    "invalid model version specified '-1' , version should be an integral value > 0",
  ],
  ["a version in words is refused", "ModelMetadata", { name: "pair", version: "v1" }, INVALID, NO_VERSION("v1")],
  [
    "version 0 has no configuration",
    "ModelConfig",
    { name: "pair", version: "0" },
    ABSENT,
    "Request for unknown model: 'pair' version 0 is not found",
  ],
  [
    "version 0 has no statistics",
    "ModelStatistics",
    { name: "pair", version: "0" },
    INVALID,
    "requested model version is not available for model 'pair'",
  ],
  [
    "an index of a repository",
    "RepositoryIndex",
    { repository_name: "r" },
    UNIMPLEMENTED,
    "'repository_name' specification is not supported",
  ],
  [
    "an unknown load parameter",
    "RepositoryModelLoad",
    { model_name: "pair", parameters: { mode: { string_param: "" } } },
    INVALID,
    "unrecognized load parameter 'mode'.",
  ],
  [
    "a configuration as bytes",
    "RepositoryModelLoad",
    { model_name: "pair", parameters: { config: { bytes_param: BYTES } } },
    INVALID,
    "invalid value type for load parameter 'config', expected string_param.",
  ],
  [
    "a file as a text",
    "RepositoryModelLoad",
    { model_name: "pair", parameters: { "file:1/m": { string_param: "" } } },
    INVALID,
    "invalid value type for load parameter 'file:1/m', expected bytes_param.",
  ],
  [
    "dependents as a number",
    "RepositoryModelUnload",
    { model_name: "nothing", parameters: { unload_dependents: { int64_param: 1 } } },
    INVALID,
    WRONG("unload_dependents", "bool_param"),
  ],
  [
    "regions where none are allowed",
    "SystemSharedMemoryRegister",
    { name: "r", key: "/r", byte_size: 1 },
    UNIMPLEMENTED,
    "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.",
  ],
  [
    "CUDA regions without a GPU",
    "CudaSharedMemoryRegister",
    { name: "r" },
    INVALID,
    "failed to register CUDA shared memory region: 'r', GPUs not supported",
  ],
  [
    "a trace file",
    "TraceSetting",
    { settings: { trace_file: { value: [] } } },
    UNIMPLEMENTED,
    "trace file location can not be updated through network protocol",
  ],
  [
    "two rates",
    "TraceSetting",
    { settings: { trace_rate: { value: ["1", "2"] } } },
    INVALID,
    "expect only 1 value for 'trace_rate'",
  ],
  [
    "a count below -1",
    "TraceSetting",
    { settings: { trace_count: { value: ["-8"] } } },
    INVALID,
    "Unable to parse 'trace_count'. Expecting value >= -1, got: -8",
  ],
  [
    "traces of an unknown model",
    "TraceSetting",
    { model_name: "nothing" },
    INVALID,
    "Request for unknown model : nothing",
  ],
  [
    "a log file",
    "LogSettings",
    { settings: { log_file: { string_param: "x" } } },
    UNIMPLEMENTED,
    "log file location can not be updated through network protocol",
  ],
  [
    "a log flag as a number",
    "LogSettings",
    { settings: { log_info: { uint32_param: 1 } } },
    INVALID,
    "expect boolean for 'log_info'",
  ],
  [
    "a level as a text",
    "LogSettings",
    { settings: { log_verbose_level: { string_param: "1" } } },
    INVALID,
    "expect int32 for 'log_verbose_level'",
  ],
  [
    "an unknown format",
    "LogSettings",
    { settings: { log_format: { string_param: "iso" } } },
    INVALID,
    "invalid argument for log_format, got: iso",
  ],
];
