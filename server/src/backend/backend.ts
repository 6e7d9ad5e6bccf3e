/**
 * The contract between a scheduler and what runs a model. A backend is a factory of models, a model of instances.
 * Nothing here knows queues, protocols or the repository.
 */
import type { InferRequest, ParameterValue } from "../core/infer-request.ts";
import type { InferResponse } from "../core/infer-response.ts";
import type { ModelConfig } from "../core/model-config.ts";
import type { TextFolders } from "../core/model-server.ts";
import type { ModelSignature } from "../core/model-signature.ts";
import type { ServerError } from "../core/server-error.ts";
import type { Tensor } from "../core/tensor.ts";
import type { Logger } from "../observe/log.ts";
import type { MetricFamily } from "../observe/metrics.ts";

/** A backend's response; the scheduler adds model name, version and id. */
export interface BackendResponse {
  readonly outputs: readonly Tensor[];
  readonly parameters?: ReadonlyMap<string, ParameterValue>;
  /** An error instead of outputs. Unless it is final, more responses may follow it. */
  readonly error?: ServerError | undefined;
  /** Last response of its request. A non-decoupled model gives one response, with `final: true`. */
  readonly final: boolean;
  /** As in `InferResponse`. */
  readonly release?: (() => void) | undefined;
}

/** One response of a stream, for the statistics. Times in ms of `performance.now()`. */
export interface ResponseReport {
  readonly startMs: number;
  /** Undefined: no outputs were made. */
  readonly outputStartMs: number | undefined;
  readonly endMs: number;
  readonly outcome: "success" | "fail" | "empty_response" | "cancel";
}

/** One request of a batch, as a backend sees it. Exactly one final response or one `fail` ends it. */
export interface BackendRequest {
  /** Inputs are complete and checked against the configuration; shapes are those the model sees (after `reshape`). */
  readonly request: InferRequest;
  /** Rows of this request: its first dimension when the model batches, else 1. */
  readonly batchSize: number;
  /** Outputs to produce: the requested ones, or all of the configuration. A backend may produce more. */
  readonly outputNames: readonly string[];
  /** Hands over a response. Never throws; ignored after the end. */
  respond(response: BackendResponse): void;
  fail(error: ServerError): void;
  /**
   * Reschedules the request: it runs again, with the requests queued by then. Present only for iterative sequences.
   * Responses sent before still reach the client.
   */
  reschedule?(): void;
  /** Reports one response of a stream to the statistics, in the order of the responses. */
  reportResponse?(report: ResponseReport): void;
  /**
   * Resolves when the client has taken enough of what was sent: a producer of many responses awaits it. Undefined: it has.
   */
  drained(): Promise<void> | undefined;
}

/** One execution. The marks feed the statistics: input before `computeStart`, output after `computeEnd`. */
export interface Batch {
  readonly requests: readonly BackendRequest[];
  /** Sum of the requests' rows. */
  readonly batchSize: number;
  /** Call once when inputs are ready and the model starts to run; `atMs`: when it did, if that is not now. */
  computeStarted(atMs?: number): void;
  /** Call once when the model has run and outputs are taken out; `atMs` as above. */
  computeEnded(atMs?: number): void;
}

/** One executor of a model version. The scheduler never gives it a second batch before `execute` has settled. */
export interface ModelInstance {
  readonly name: string;
  /** True: `execute` may settle with requests that are answered later, also where a model gives one answer each. */
  readonly answersLater?: boolean;
  /** Requests that it still works on though their executions have settled: of those that are free the least loaded is next. */
  load?(): number;
  /**
   * Runs a batch. A rejection fails every request of the batch that has not ended yet. A decoupled model may settle early,
   * to take the next batch, and respond later; one that must answer before settles when it has. Returning undefined
   * means: done already, synchronously (saves a turn of the event loop).
   */
  execute(batch: Batch): Promise<void> | undefined;
  /**
   * Answers a request of one row in the call, where nothing but inputs and origin matter. Absent: `execute` only.
   * @throws ServerError
   */
  readonly answerNow?: ((request: Pick<InferRequest, "inputs" | "origin">) => readonly Tensor[]) | undefined;
  /** False takes model and server readiness down; for instances that can die (engine hosts, Python processes). */
  isReady(): boolean;
  /** The model's own readiness check, if it has one. @throws ServerError unavailable with the reason */
  checkReady?(): Promise<void>;
  /** Frees everything. Called once, when no batch runs. */
  close(): Promise<void>;
}

/** A model version that a backend has loaded. */
export interface BackendModel {
  /** Above 1: so many GPUs run an instance of kind KIND_GPU together. */
  readonly gpusPerInstance?: number;
  /** Folders of a language model that its `parameters` do not name. */
  readonly textFolders?: TextFolders;
  createInstance(spec: InstanceSpec): Promise<ModelInstance>;
  /** Frees what the instances shared; they are closed before. */
  close(): Promise<void>;
}

export interface InstanceSpec {
  /** Triton's name: `<group>_<index>` (and the device for GPU groups). */
  readonly name: string;
  readonly kind: "KIND_CPU" | "KIND_GPU" | "KIND_MODEL";
  readonly deviceId: number;
  /** All GPUs of an instance that spans several; the first is `deviceId`. */
  readonly deviceIds?: readonly number[];
}

/** The model version to load, as the repository describes it. */
export interface ModelSource {
  readonly name: string;
  readonly version: number;
  readonly config: ModelConfig;
  /** Absolute folder of the model (labels, warmup data) and of the version (the artifact). */
  readonly modelFolder: string;
  readonly versionFolder: string;
  /** The server has fetched the files itself: each may have further names in its cache. */
  readonly isFetched?: boolean;
  /** `--backend-config` settings for this backend merged over the global ones. */
  readonly settings: ReadonlyMap<string, string>;
  readonly log: Logger;
  /** Calls other models (ensembles, BLS). */
  readonly models: ModelCaller;
  readonly metrics: BackendMetrics;
}

/** Runs a request on another model of the same server, by the same rules as a client's. */
export interface ModelCaller {
  infer(request: InferRequest): AsyncIterable<InferResponse>;
  /** Inputs and outputs of a model. @throws ServerError when it is not served */
  signature(modelName: string): ModelSignature;
}

/** Custom metric families of a backend, shown on the metrics page. */
export interface BackendMetrics {
  /** Registers a family whose series are read at scrape time; dispose it when the model goes. */
  register(family: MetricFamily): Disposable;
}

/** Values for auto-complete, read from the model itself; undefined = the backend cannot tell. */
export interface ModelDescription {
  readonly inputs: readonly DescribedTensor[];
  readonly outputs: readonly DescribedTensor[];
  /** First dimension of every tensor is free. */
  readonly canBatch: boolean;
  /** Values that the model's own code chose; they override defaults. */
  readonly maxBatchSize?: number;
  readonly dynamicBatching?: boolean;
  readonly decoupled?: boolean;
  /** True: tensors that the configuration lacks are added to it. Else a configuration that names some must name all. */
  readonly addsTensors?: boolean;
}

export interface DescribedTensor {
  readonly name: string;
  /** As in the configuration, e.g. "TYPE_FP32". */
  readonly dataType: ModelConfig["input"][number]["data_type"];
  /** Full shape of the model, batch dimension included when `canBatch`; -1 = free. */
  readonly dims: readonly number[];
  /** Inputs only: requests may leave it out. */
  readonly optional?: boolean;
}

export interface UsableGpus {
  readonly ids: readonly number[];
  /** The least compute capability that counts as usable: named when a model asks for a device that is not. */
  readonly minComputeCapability: number;
  /** Only groups that say KIND_GPU run there; those that leave it open stay on the CPU. */
  readonly byRequestOnly?: boolean;
}

export interface Backend {
  /** The name users write in `backend:`. */
  readonly name: string;
  /** Devices that instances of kind KIND_GPU may run on; absent = none. */
  readonly gpus?: UsableGpus | undefined;
  /** It looks for the library that the field `runtime` of a configuration names. */
  readonly findsRuntime?: boolean;
  /** The backend that serves this model in place of the named one; undefined: this one does. */
  delegate?(source: ModelSource): Promise<Backend | undefined>;
  /** Reads what the model declares, for auto-complete and validation. */
  describe?(source: ModelSource): Promise<ModelDescription | undefined>;
  /** @throws ServerError with the reason the load failed */
  load(source: ModelSource): Promise<BackendModel>;
  /** Frees what all models of the backend share. */
  close(): Promise<void>;
}
