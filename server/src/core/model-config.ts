/**
 * The model configuration after validation and normalisation, frozen (config/ makes it). Source: Triton's
 * model_config.proto; field names are those of `config.pbtxt`. Every primitive, list and map is present, with defaults.
 * Absent messages and unchosen oneof members are undefined. 64-bit integers are numbers: config/ refuses unsafe values.
 */

export type ConfigDataType =
  | "TYPE_INVALID"
  | "TYPE_BOOL"
  | "TYPE_UINT8"
  | "TYPE_UINT16"
  | "TYPE_UINT32"
  | "TYPE_UINT64"
  | "TYPE_INT8"
  | "TYPE_INT16"
  | "TYPE_INT32"
  | "TYPE_INT64"
  | "TYPE_FP16"
  | "TYPE_FP32"
  | "TYPE_FP64"
  | "TYPE_STRING"
  | "TYPE_BF16";
export type InstanceKind = "KIND_AUTO" | "KIND_GPU" | "KIND_CPU" | "KIND_MODEL";
export type SecondaryDeviceKind = "KIND_NVDLA";
export type InputFormat = "FORMAT_NONE" | "FORMAT_NHWC" | "FORMAT_NCHW";
export type BatchInputKind =
  | "BATCH_ELEMENT_COUNT"
  | "BATCH_ACCUMULATED_ELEMENT_COUNT"
  | "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO"
  | "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE"
  | "BATCH_ITEM_SHAPE"
  | "BATCH_ITEM_SHAPE_FLATTEN";
export type BatchOutputKind = "BATCH_SCATTER_WITH_INPUT_SHAPE";
export type ModelPriority = "PRIORITY_DEFAULT" | "PRIORITY_MAX" | "PRIORITY_MIN";
export type TimeoutAction = "REJECT" | "DELAY";
export type SequenceControlKind =
  | "CONTROL_SEQUENCE_START"
  | "CONTROL_SEQUENCE_READY"
  | "CONTROL_SEQUENCE_END"
  | "CONTROL_SEQUENCE_CORRID";

export interface ModelConfig {
  readonly name: string;
  readonly platform: string;
  readonly version_policy?: ModelVersionPolicy | undefined;
  readonly max_batch_size: number;
  readonly input: readonly ModelInput[];
  readonly output: readonly ModelOutput[];
  readonly instance_group: readonly ModelInstanceGroup[];
  readonly default_model_filename: string;
  readonly cc_model_filenames: Readonly<Record<string, string>>;
  readonly metric_tags: Readonly<Record<string, string>>;
  readonly dynamic_batching?: ModelDynamicBatching | undefined;
  readonly optimization?: ModelOptimizationPolicy | undefined;
  readonly sequence_batching?: ModelSequenceBatching | undefined;
  readonly parameters: Readonly<Record<string, ModelParameter>>;
  readonly ensemble_scheduling?: ModelEnsembling | undefined;
  readonly model_warmup: readonly ModelWarmup[];
  readonly backend: string;
  readonly model_operations?: ModelOperations | undefined;
  readonly model_transaction_policy?: ModelTransactionPolicy | undefined;
  readonly batch_input: readonly BatchInput[];
  readonly batch_output: readonly BatchOutput[];
  readonly model_repository_agents?: ModelRepositoryAgents | undefined;
  readonly response_cache?: ModelResponseCache | undefined;
  readonly runtime: string;
  readonly model_metrics?: ModelMetrics | undefined;
}

export interface ModelRateLimiter {
  readonly resources: readonly ModelRateLimiterResource[];
  readonly priority: number;
}

export interface ModelRateLimiterResource {
  readonly name: string;
  readonly global: boolean;
  readonly count: number;
}

export interface ModelInstanceGroup {
  readonly name: string;
  readonly count: number;
  readonly gpus: readonly number[];
  readonly kind: InstanceKind;
  readonly profile: readonly string[];
  readonly rate_limiter?: ModelRateLimiter | undefined;
  readonly passive: boolean;
  readonly secondary_devices: readonly ModelInstanceGroupSecondaryDevice[];
  readonly host_policy: string;
}

export interface ModelInstanceGroupSecondaryDevice {
  readonly kind: SecondaryDeviceKind;
  readonly device_id: number;
}

export interface ModelTensorReshape {
  readonly shape: readonly number[];
}

export interface ModelInput {
  readonly name: string;
  readonly data_type: ConfigDataType;
  readonly format: InputFormat;
  readonly dims: readonly number[];
  readonly reshape?: ModelTensorReshape | undefined;
  readonly is_shape_tensor: boolean;
  readonly allow_ragged_batch: boolean;
  readonly optional: boolean;
  readonly is_non_linear_format_io: boolean;
}

export interface ModelOutput {
  readonly name: string;
  readonly data_type: ConfigDataType;
  readonly dims: readonly number[];
  readonly label_filename: string;
  readonly reshape?: ModelTensorReshape | undefined;
  readonly is_shape_tensor: boolean;
  readonly is_non_linear_format_io: boolean;
}

export interface BatchInput {
  readonly kind: BatchInputKind;
  readonly target_name: readonly string[];
  readonly data_type: ConfigDataType;
  readonly source_input: readonly string[];
}

export interface BatchOutput {
  readonly target_name: readonly string[];
  readonly kind: BatchOutputKind;
  readonly source_input: readonly string[];
}

export interface ModelVersionPolicy {
  readonly latest?: ModelVersionPolicyLatest | undefined;
  readonly all?: ModelVersionPolicyAll | undefined;
  readonly specific?: ModelVersionPolicySpecific | undefined;
}

export interface ModelVersionPolicyLatest {
  readonly num_versions: number;
}

export type ModelVersionPolicyAll = Readonly<Record<string, never>>;

export interface ModelVersionPolicySpecific {
  readonly versions: readonly number[];
}

export interface ModelOptimizationPolicy {
  readonly graph?: ModelOptimizationPolicyGraph | undefined;
  readonly priority: ModelPriority;
  readonly cuda?: ModelOptimizationPolicyCuda | undefined;
  readonly execution_accelerators?: ModelOptimizationPolicyExecutionAccelerators | undefined;
  readonly input_pinned_memory?: ModelOptimizationPolicyPinnedMemoryBuffer | undefined;
  readonly output_pinned_memory?: ModelOptimizationPolicyPinnedMemoryBuffer | undefined;
  readonly gather_kernel_buffer_threshold: number;
  readonly eager_batching: boolean;
}

export interface ModelOptimizationPolicyGraph {
  readonly level: number;
}

export interface ModelOptimizationPolicyCuda {
  readonly graphs: boolean;
  readonly busy_wait_events: boolean;
  readonly graph_spec: readonly ModelOptimizationPolicyCudaGraphSpec[];
  readonly output_copy_stream: boolean;
}

export interface ModelOptimizationPolicyCudaGraphSpec {
  readonly batch_size: number;
  readonly input: Readonly<Record<string, ModelOptimizationPolicyCudaGraphSpecShape>>;
  readonly graph_lower_bound?: ModelOptimizationPolicyCudaGraphSpecLowerBound | undefined;
}

export interface ModelOptimizationPolicyCudaGraphSpecShape {
  readonly dim: readonly number[];
}

export interface ModelOptimizationPolicyCudaGraphSpecLowerBound {
  readonly batch_size: number;
  readonly input: Readonly<Record<string, ModelOptimizationPolicyCudaGraphSpecShape>>;
}

export interface ModelOptimizationPolicyExecutionAccelerators {
  readonly gpu_execution_accelerator: readonly ModelOptimizationPolicyExecutionAcceleratorsAccelerator[];
  readonly cpu_execution_accelerator: readonly ModelOptimizationPolicyExecutionAcceleratorsAccelerator[];
}

export interface ModelOptimizationPolicyExecutionAcceleratorsAccelerator {
  readonly name: string;
  readonly parameters: Readonly<Record<string, string>>;
}

export interface ModelOptimizationPolicyPinnedMemoryBuffer {
  readonly enable: boolean;
}

export interface ModelQueuePolicy {
  readonly timeout_action: TimeoutAction;
  readonly default_timeout_microseconds: number;
  readonly allow_timeout_override: boolean;
  readonly max_queue_size: number;
}

export interface ModelDynamicBatching {
  readonly preferred_batch_size: readonly number[];
  readonly max_queue_delay_microseconds: number;
  readonly preserve_ordering: boolean;
  readonly priority_levels: number;
  readonly default_priority_level: number;
  readonly default_queue_policy?: ModelQueuePolicy | undefined;
  readonly priority_queue_policy: Readonly<Record<string, ModelQueuePolicy>>;
}

export interface ModelSequenceBatching {
  readonly max_sequence_idle_microseconds: number;
  readonly control_input: readonly ModelSequenceBatchingControlInput[];
  readonly direct?: ModelSequenceBatchingStrategyDirect | undefined;
  readonly oldest?: ModelSequenceBatchingStrategyOldest | undefined;
  readonly state: readonly ModelSequenceBatchingState[];
  readonly iterative_sequence: boolean;
}

export interface ModelSequenceBatchingControl {
  readonly kind: SequenceControlKind;
  readonly int32_false_true: readonly number[];
  readonly fp32_false_true: readonly number[];
  readonly data_type: ConfigDataType;
  readonly bool_false_true: readonly boolean[];
}

export interface ModelSequenceBatchingControlInput {
  readonly name: string;
  readonly control: readonly ModelSequenceBatchingControl[];
}

export interface ModelSequenceBatchingInitialState {
  readonly data_type: ConfigDataType;
  readonly dims: readonly number[];
  readonly zero_data?: boolean | undefined;
  readonly data_file?: string | undefined;
  readonly name: string;
}

export interface ModelSequenceBatchingState {
  readonly input_name: string;
  readonly output_name: string;
  readonly data_type: ConfigDataType;
  readonly dims: readonly number[];
  readonly initial_state: readonly ModelSequenceBatchingInitialState[];
  readonly use_same_buffer_for_input_output: boolean;
  readonly use_growable_memory: boolean;
}

export interface ModelSequenceBatchingStrategyDirect {
  readonly max_queue_delay_microseconds: number;
  readonly minimum_slot_utilization: number;
}

export interface ModelSequenceBatchingStrategyOldest {
  readonly max_candidate_sequences: number;
  readonly preferred_batch_size: readonly number[];
  readonly max_queue_delay_microseconds: number;
  readonly preserve_ordering: boolean;
}

export interface ModelEnsembling {
  readonly step: readonly ModelEnsemblingStep[];
  readonly max_inflight_requests: number;
}

export interface ModelEnsemblingStep {
  readonly model_name: string;
  readonly model_version: number;
  readonly input_map: Readonly<Record<string, string>>;
  readonly output_map: Readonly<Record<string, string>>;
  readonly model_namespace: string;
}

export interface ModelParameter {
  readonly string_value: string;
}

export interface ModelWarmup {
  readonly name: string;
  readonly batch_size: number;
  readonly inputs: Readonly<Record<string, ModelWarmupInput>>;
  readonly count: number;
}

export interface ModelWarmupInput {
  readonly data_type: ConfigDataType;
  readonly dims: readonly number[];
  readonly zero_data?: boolean | undefined;
  readonly random_data?: boolean | undefined;
  readonly input_data_file?: string | undefined;
}

export interface ModelOperations {
  readonly op_library_filename: readonly string[];
}

export interface ModelTransactionPolicy {
  readonly decoupled: boolean;
}

export interface ModelRepositoryAgents {
  readonly agents: readonly ModelRepositoryAgentsAgent[];
}

export interface ModelRepositoryAgentsAgent {
  readonly name: string;
  readonly parameters: Readonly<Record<string, string>>;
}

export interface ModelResponseCache {
  readonly enable: boolean;
}

export interface ModelMetrics {
  readonly metric_control: readonly ModelMetricsMetricControl[];
}

export interface ModelMetricsMetricControl {
  readonly metric_identifier?: ModelMetricsMetricControlMetricIdentifier | undefined;
  readonly histogram_options?: ModelMetricsMetricControlHistogramOptions | undefined;
}

export interface ModelMetricsMetricControlMetricIdentifier {
  readonly family: string;
}

export interface ModelMetricsMetricControlHistogramOptions {
  readonly buckets: readonly number[];
}
