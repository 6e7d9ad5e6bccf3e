/** Entry point for browsers and workers: a client of the KServe V2 protocol over fetch. Imports nothing of Node. */
export type { Datatype } from "@nereid/wire";
export type { CallOptions } from "./call-options.ts";
export type { HedgeOptions, RetryOptions } from "./call-policy.ts";
export { ClientError } from "./client-error.ts";
export type { ClientErrorKind } from "./error-details.ts";
export { fromBfloat16, fromFloat16, toBfloat16, toFloat16 } from "./half-floats.ts";
export type { CompressionAlgorithm } from "./http/compress.ts";
export type { HttpModelHandle } from "./http/http-model-handle.ts";
export type {
  InferCallOptions,
  InferOptions,
  RequestedOutput,
  RequestParameter,
  SequencePosition,
} from "./infer-request.ts";
export type { InferResult, ParameterValue } from "./infer-result.ts";
export type { InferSequence } from "./infer-sequence.ts";
export type { InferenceClient } from "./inference-client.ts";
export type { JsonData, JsonRecord } from "./json-document.ts";
export type {
  ModelMetadata,
  ModelStatistics,
  RepositoryEntry,
  ServerMetadata,
  StatisticDuration,
  TensorMetadata,
} from "./metadata.ts";
export type { ModelHandle } from "./model-handle.ts";
export type { ModelTypes, ServedModels, TensorType, TensorTypes } from "./model-types.ts";
export { NereidClient, type NereidClientOptions } from "./nereid-client.ts";
export type { OutputOf, OutputTensor } from "./output-tensor.ts";
export type { IndexOptions, LoadOptions, RepositoryClient, UnloadOptions } from "./repository-client.ts";
export type {
  CudaRegion,
  LogSettings,
  MemoryKind,
  MemoryRegion,
  SystemRegion,
  TraceChanges,
  TraceSettings,
} from "./server-resources.ts";
export type { SettingsClient, TraceOptions } from "./settings-client.ts";
export type { MemoryOptions, SharedMemoryClient } from "./shared-memory-client.ts";
export {
  type Float16View,
  type InputElements,
  type InputTensor,
  type OutputElements,
  type RegionPart,
  type TensorValue,
  tensor,
  tensorValue,
} from "./tensor.ts";
