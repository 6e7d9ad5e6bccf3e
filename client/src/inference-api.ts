/**
 * Calls of the protocol that HTTP and gRPC both have. One class for each protocol implements them; clients are built
 * on it. Source: KServe V2, HTTP/REST and grpc_service.proto.
 */
import type { CallOptions } from "./call-options.ts";
import type { InferCallOptions, InferRequest } from "./infer-request.ts";
import type { InferResult } from "./infer-result.ts";
import type { JsonRecord } from "./json-document.ts";
import type { ModelMetadata, ModelStatistics, RepositoryEntry, ServerMetadata } from "./metadata.ts";
import type { ModelTypes } from "./model-types.ts";
import type {
  CudaRegion,
  LogSettings,
  MemoryKind,
  MemoryRegion,
  SystemRegion,
  TraceChanges,
  TraceSettings,
} from "./server-resources.ts";

export interface ModelVersion {
  readonly name: string;
  /** "": the server chooses. */
  readonly version: string;
}

export interface LoadRequest {
  /** Replaces the model's configuration; field names as in `config.pbtxt`. */
  readonly config?: JsonRecord | undefined;
  /** Contents by path below the model's folder, e.g. "1/model.onnx". They replace all files; `config` must be given too. */
  readonly files?: Readonly<Record<string, Uint8Array>> | undefined;
}

export interface InferenceApi {
  isLive(options: CallOptions): Promise<boolean>;
  isReady(options: CallOptions): Promise<boolean>;
  isModelReady(model: ModelVersion, options: CallOptions): Promise<boolean>;
  serverMetadata(options: CallOptions): Promise<ServerMetadata>;
  modelMetadata(model: ModelVersion, options: CallOptions): Promise<ModelMetadata>;
  modelConfig(model: ModelVersion, options: CallOptions): Promise<JsonRecord>;
  /** All models when none is given. */
  statistics(model: ModelVersion | undefined, options: CallOptions): Promise<readonly ModelStatistics[]>;
  /** `M`: types made from the metadata of the model. */
  infer<M extends ModelTypes>(request: InferRequest, options: InferCallOptions): Promise<InferResult<M>>;
  repositoryIndex(isReady: boolean | undefined, options: CallOptions): Promise<readonly RepositoryEntry[]>;
  loadModel(name: string, request: LoadRequest, options: CallOptions): Promise<void>;
  unloadModel(name: string, unloadDependents: boolean | undefined, options: CallOptions): Promise<void>;
  /** Settings of the server when no model is given. Without changes they are read alone. */
  traceSettings(
    model: string | undefined,
    changes: TraceChanges | undefined,
    options: CallOptions,
  ): Promise<TraceSettings>;
  logSettings(changes: LogSettings | undefined, options: CallOptions): Promise<LogSettings>;
  memoryStatus(kind: MemoryKind, name: string | undefined, options: CallOptions): Promise<readonly MemoryRegion[]>;
  registerSystemMemory(region: SystemRegion, options: CallOptions): Promise<void>;
  registerCudaMemory(region: CudaRegion, options: CallOptions): Promise<void>;
  /** All regions of the kind without a name. */
  unregisterMemory(kind: MemoryKind, name: string | undefined, options: CallOptions): Promise<void>;
}
