/**
 * The fields of a model configuration: names, types and the order in which `/config` prints them. Source: Triton's
 * model_config.proto; a test compares both. The text and JSON readers and the printer use this table.
 */

export type ScalarType = "string" | "bool" | "int32" | "uint32" | "int64" | "uint64" | "float" | "double";

/** Type of one value of a field. */
export type ValueSpec =
  | { readonly kind: "scalar"; readonly type: ScalarType }
  | { readonly kind: "enum"; readonly name: string; readonly values: readonly string[] }
  | { readonly kind: "message"; readonly name: string };

export interface FieldSpec {
  readonly name: string;
  readonly shape: "single" | "list" | "map";
  /** Type of a map's keys. */
  readonly key: "string" | "uint64";
  readonly value: ValueSpec;
  /** 64-bit integers that `/config` prints as text. */
  readonly isPrintedAsText: boolean;
  /** Name of the oneof that the field belongs to. */
  readonly choice: string | undefined;
}

export type MessageSpec = ReadonlyMap<string, FieldSpec>;

/** Enumeration names, indexed by number. */
const ENUMS: Readonly<Record<string, readonly string[]>> = {
  DataType: (
    "TYPE_INVALID TYPE_BOOL TYPE_UINT8 TYPE_UINT16 TYPE_UINT32 TYPE_UINT64 TYPE_INT8 TYPE_INT16 TYPE_INT32 " +
    "TYPE_INT64 TYPE_FP16 TYPE_FP32 TYPE_FP64 TYPE_STRING TYPE_BF16"
  ).split(" "),
  "ModelInstanceGroup.Kind": ["KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL"],
  "ModelInstanceGroup.SecondaryDevice.SecondaryDeviceKind": ["KIND_NVDLA"],
  "ModelInput.Format": ["FORMAT_NONE", "FORMAT_NHWC", "FORMAT_NCHW"],
  "BatchInput.Kind": [
    "BATCH_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
    "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE",
    "BATCH_ITEM_SHAPE",
    "BATCH_ITEM_SHAPE_FLATTEN",
  ],
  "BatchOutput.Kind": ["BATCH_SCATTER_WITH_INPUT_SHAPE"],
  "ModelOptimizationPolicy.ModelPriority": ["PRIORITY_DEFAULT", "PRIORITY_MAX", "PRIORITY_MIN"],
  "ModelQueuePolicy.TimeoutAction": ["REJECT", "DELAY"],
  "ModelSequenceBatching.Control.Kind": [
    "CONTROL_SEQUENCE_START",
    "CONTROL_SEQUENCE_READY",
    "CONTROL_SEQUENCE_END",
    "CONTROL_SEQUENCE_CORRID",
  ],
};

/**
 * `T[]` is a list, `{K: T}` a map, `T | c` a member of the choice c, `int64 text` is printed as text.
 * The order of the fields is the order of print.
 */
const MESSAGES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  ModelConfig: {
    name: "string",
    platform: "string",
    backend: "string",
    runtime: "string",
    version_policy: "ModelVersionPolicy",
    max_batch_size: "int32",
    input: "ModelInput[]",
    output: "ModelOutput[]",
    batch_input: "BatchInput[]",
    batch_output: "BatchOutput[]",
    optimization: "ModelOptimizationPolicy",
    dynamic_batching: "ModelDynamicBatching | scheduling_choice",
    sequence_batching: "ModelSequenceBatching | scheduling_choice",
    ensemble_scheduling: "ModelEnsembling | scheduling_choice",
    instance_group: "ModelInstanceGroup[]",
    default_model_filename: "string",
    cc_model_filenames: "{string: string}",
    metric_tags: "{string: string}",
    parameters: "{string: ModelParameter}",
    model_warmup: "ModelWarmup[]",
    model_operations: "ModelOperations",
    model_transaction_policy: "ModelTransactionPolicy",
    model_repository_agents: "ModelRepositoryAgents",
    response_cache: "ModelResponseCache",
    model_metrics: "ModelMetrics",
  },
  ModelRateLimiter: { resources: "ModelRateLimiter.Resource[]", priority: "uint32" },
  "ModelRateLimiter.Resource": { name: "string", global: "bool", count: "uint32" },
  ModelInstanceGroup: {
    name: "string",
    kind: "ModelInstanceGroup.Kind",
    count: "int32",
    rate_limiter: "ModelRateLimiter",
    gpus: "int32[]",
    secondary_devices: "ModelInstanceGroup.SecondaryDevice[]",
    profile: "string[]",
    passive: "bool",
    host_policy: "string",
  },
  "ModelInstanceGroup.SecondaryDevice": {
    kind: "ModelInstanceGroup.SecondaryDevice.SecondaryDeviceKind",
    device_id: "int64 text",
  },
  ModelTensorReshape: { shape: "int64[]" },
  ModelInput: {
    name: "string",
    data_type: "DataType",
    format: "ModelInput.Format",
    dims: "int64[]",
    reshape: "ModelTensorReshape",
    is_shape_tensor: "bool",
    allow_ragged_batch: "bool",
    optional: "bool",
    is_non_linear_format_io: "bool",
  },
  ModelOutput: {
    name: "string",
    data_type: "DataType",
    dims: "int64[]",
    reshape: "ModelTensorReshape",
    label_filename: "string",
    is_shape_tensor: "bool",
    is_non_linear_format_io: "bool",
  },
  BatchInput: { kind: "BatchInput.Kind", target_name: "string[]", data_type: "DataType", source_input: "string[]" },
  BatchOutput: { target_name: "string[]", kind: "BatchOutput.Kind", source_input: "string[]" },
  ModelVersionPolicy: {
    latest: "ModelVersionPolicy.Latest | policy_choice",
    all: "ModelVersionPolicy.All | policy_choice",
    specific: "ModelVersionPolicy.Specific | policy_choice",
  },
  "ModelVersionPolicy.Latest": { num_versions: "uint32" },
  "ModelVersionPolicy.All": {},
  "ModelVersionPolicy.Specific": { versions: "int64[]" },
  ModelOptimizationPolicy: {
    graph: "ModelOptimizationPolicy.Graph",
    priority: "ModelOptimizationPolicy.ModelPriority",
    cuda: "ModelOptimizationPolicy.Cuda",
    execution_accelerators: "ModelOptimizationPolicy.ExecutionAccelerators",
    input_pinned_memory: "ModelOptimizationPolicy.PinnedMemoryBuffer",
    output_pinned_memory: "ModelOptimizationPolicy.PinnedMemoryBuffer",
    gather_kernel_buffer_threshold: "uint32",
    eager_batching: "bool",
  },
  "ModelOptimizationPolicy.Graph": { level: "int32" },
  "ModelOptimizationPolicy.Cuda": {
    graphs: "bool",
    busy_wait_events: "bool",
    graph_spec: "ModelOptimizationPolicy.Cuda.GraphSpec[]",
    output_copy_stream: "bool",
  },
  "ModelOptimizationPolicy.Cuda.GraphSpec": {
    batch_size: "int32",
    input: "{string: ModelOptimizationPolicy.Cuda.GraphSpec.Shape}",
    graph_lower_bound: "ModelOptimizationPolicy.Cuda.GraphSpec.LowerBound",
  },
  "ModelOptimizationPolicy.Cuda.GraphSpec.Shape": { dim: "int64[] text" },
  "ModelOptimizationPolicy.Cuda.GraphSpec.LowerBound": {
    batch_size: "int32",
    input: "{string: ModelOptimizationPolicy.Cuda.GraphSpec.Shape}",
  },
  "ModelOptimizationPolicy.ExecutionAccelerators": {
    gpu_execution_accelerator: "ModelOptimizationPolicy.ExecutionAccelerators.Accelerator[]",
    cpu_execution_accelerator: "ModelOptimizationPolicy.ExecutionAccelerators.Accelerator[]",
  },
  "ModelOptimizationPolicy.ExecutionAccelerators.Accelerator": { name: "string", parameters: "{string: string}" },
  "ModelOptimizationPolicy.PinnedMemoryBuffer": { enable: "bool" },
  ModelQueuePolicy: {
    timeout_action: "ModelQueuePolicy.TimeoutAction",
    default_timeout_microseconds: "uint64",
    allow_timeout_override: "bool",
    max_queue_size: "uint32",
  },
  ModelDynamicBatching: {
    preferred_batch_size: "int32[]",
    max_queue_delay_microseconds: "uint64",
    preserve_ordering: "bool",
    priority_levels: "uint64",
    default_priority_level: "uint64",
    default_queue_policy: "ModelQueuePolicy",
    priority_queue_policy: "{uint64: ModelQueuePolicy}",
  },
  ModelSequenceBatching: {
    direct: "ModelSequenceBatching.StrategyDirect | strategy_choice",
    oldest: "ModelSequenceBatching.StrategyOldest | strategy_choice",
    max_sequence_idle_microseconds: "uint64",
    control_input: "ModelSequenceBatching.ControlInput[]",
    state: "ModelSequenceBatching.State[]",
    iterative_sequence: "bool",
  },
  "ModelSequenceBatching.Control": {
    kind: "ModelSequenceBatching.Control.Kind",
    int32_false_true: "int32[]",
    fp32_false_true: "float[]",
    bool_false_true: "bool[]",
    data_type: "DataType",
  },
  "ModelSequenceBatching.ControlInput": { name: "string", control: "ModelSequenceBatching.Control[]" },
  "ModelSequenceBatching.InitialState": {
    data_type: "DataType",
    dims: "int64[] text",
    zero_data: "bool | state_data",
    data_file: "string | state_data",
    name: "string",
  },
  "ModelSequenceBatching.State": {
    input_name: "string",
    output_name: "string",
    data_type: "DataType",
    dims: "int64[]",
    initial_state: "ModelSequenceBatching.InitialState[]",
    use_same_buffer_for_input_output: "bool",
    use_growable_memory: "bool",
  },
  "ModelSequenceBatching.StrategyDirect": { max_queue_delay_microseconds: "uint64", minimum_slot_utilization: "float" },
  "ModelSequenceBatching.StrategyOldest": {
    max_candidate_sequences: "int32",
    preferred_batch_size: "int32[]",
    max_queue_delay_microseconds: "uint64",
    preserve_ordering: "bool",
  },
  ModelEnsembling: { step: "ModelEnsembling.Step[]", max_inflight_requests: "uint32" },
  "ModelEnsembling.Step": {
    model_name: "string",
    model_version: "int64",
    input_map: "{string: string}",
    output_map: "{string: string}",
    model_namespace: "string",
  },
  ModelParameter: { string_value: "string" },
  ModelWarmup: { name: "string", batch_size: "uint32", inputs: "{string: ModelWarmup.Input}", count: "uint32" },
  "ModelWarmup.Input": {
    data_type: "DataType",
    dims: "int64[]",
    zero_data: "bool | input_data_type",
    random_data: "bool | input_data_type",
    input_data_file: "string | input_data_type",
  },
  ModelOperations: { op_library_filename: "string[]" },
  ModelTransactionPolicy: { decoupled: "bool" },
  ModelRepositoryAgents: { agents: "ModelRepositoryAgents.Agent[]" },
  "ModelRepositoryAgents.Agent": { name: "string", parameters: "{string: string}" },
  ModelResponseCache: { enable: "bool" },
  ModelMetrics: { metric_control: "ModelMetrics.MetricControl[]" },
  "ModelMetrics.MetricControl": {
    metric_identifier: "ModelMetrics.MetricControl.MetricIdentifier",
    histogram_options: "ModelMetrics.MetricControl.HistogramOptions | metric_options",
  },
  "ModelMetrics.MetricControl.MetricIdentifier": { family: "string" },
  "ModelMetrics.MetricControl.HistogramOptions": { buckets: "double[]" },
};

const SCALARS: ReadonlySet<string> = new Set("string bool int32 uint32 int64 uint64 float double".split(" "));

const SPECS: ReadonlyMap<string, MessageSpec> = new Map(
  Object.entries(MESSAGES).map(([message, fields]) => [
    message,
    new Map(Object.entries(fields).map(([name, text]) => [name, fieldSpec(name, text)])),
  ]),
);

/** The fields of a message, by its dotted name. */
export function messageSpec(name: string): MessageSpec {
  const spec = SPECS.get(name);
  if (spec === undefined) throw new Error(`the configuration schema has no message '${name}'`);
  return spec;
}

export function messageNames(): readonly string[] {
  return Object.keys(MESSAGES);
}

function fieldSpec(name: string, text: string): FieldSpec {
  const [form = "", choice] = text.split(" | ");
  const isPrintedAsText = form.endsWith(" text");
  const type = isPrintedAsText ? form.slice(0, -" text".length) : form;
  const map = /^\{(string|uint64): (.+)\}$/.exec(type);
  const shape = map === null ? (type.endsWith("[]") ? "list" : "single") : "map";
  const value = valueSpec(map?.[2] ?? type.replace("[]", ""));
  return { name, shape, key: map?.[1] === "uint64" ? "uint64" : "string", value, isPrintedAsText, choice };
}

function valueSpec(type: string): ValueSpec {
  if (SCALARS.has(type)) return { kind: "scalar", type: type as ScalarType };
  const values = ENUMS[type];
  return values === undefined ? { kind: "message", name: type } : { kind: "enum", name: type, values };
}
