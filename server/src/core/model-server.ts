/**
 * The server's interface for front ends. Implemented by repository/, passed to protocol/ at start, faked in tests. No
 * protocol sees the repository.
 */
import type { Datatype } from "@nereid/wire";
import type { InferRequest } from "./infer-request.ts";
import type { InferResponse } from "./infer-response.ts";
import type { LogFormat } from "./log-format.ts";
import type { ModelConfig } from "./model-config.ts";
import type { TraceChanges, TraceSettings, Tracing } from "./request-trace.ts";

export interface TensorMetadata {
  readonly name: string;
  readonly datatype: Datatype;
  /** Client shape: with a leading -1 when the model batches, before any `reshape`. */
  readonly shape: readonly number[];
}

export interface ModelMetadata {
  readonly name: string;
  readonly versions: readonly string[];
  readonly platform: string;
  readonly inputs: readonly TensorMetadata[];
  readonly outputs: readonly TensorMetadata[];
}

/** Absolute paths of a language model's files: folders, or GGUF files. */
export interface TextFolders {
  readonly weights: string;
  readonly tokenizer: string;
}

/** Absolute paths. */
export interface ModelFolders extends Partial<TextFolders> {
  readonly model: string;
  readonly version: string;
}

/** One served version of a model, pinned for the life of a request. */
export interface ServedModel {
  readonly name: string;
  readonly version: string;
  readonly config: ModelConfig;
  /** By input name, client shape. */
  readonly inputs: ReadonlyMap<string, TensorMetadata>;
  readonly outputs: ReadonlyMap<string, TensorMetadata>;
  readonly decoupled: boolean;
  /** Folders of the model's files; paths in `parameters` are relative to them. Absent: it has none on this machine. */
  readonly folders?: ModelFolders;
  /** Label of an output's class, undefined without a label file or line. */
  label(output: string, index: number): string | undefined;
  /**
   * Validates, schedules and runs a request. Later failures reject the first or a later `next()`. The last response has
   * `final: true`. @throws ServerError at once when the request is refused: it breaks a rule, or the queue is full
   */
  infer(request: InferRequest): AsyncIterable<InferResponse>;
}

export interface DurationStatistic {
  readonly count: number;
  readonly ns: number;
}

export interface InferStatistics {
  readonly success: DurationStatistic;
  readonly fail: DurationStatistic;
  readonly queue: DurationStatistic;
  readonly compute_input: DurationStatistic;
  readonly compute_infer: DurationStatistic;
  readonly compute_output: DurationStatistic;
  readonly cache_hit: DurationStatistic;
  readonly cache_miss: DurationStatistic;
}

export interface InferBatchStatistics {
  readonly batch_size: number;
  readonly compute_input: DurationStatistic;
  readonly compute_infer: DurationStatistic;
  readonly compute_output: DurationStatistic;
}

export interface InferResponseStatistics {
  readonly compute_infer: DurationStatistic;
  readonly compute_output: DurationStatistic;
  readonly success: DurationStatistic;
  readonly fail: DurationStatistic;
  readonly empty_response: DurationStatistic;
  readonly cancel: DurationStatistic;
}

/** Field names and order of the wire protocol. */
export interface ModelStatistics {
  readonly name: string;
  readonly version: string;
  readonly last_inference: number;
  readonly inference_count: number;
  readonly execution_count: number;
  readonly inference_stats: InferStatistics;
  readonly response_stats: Readonly<Record<string, InferResponseStatistics>>;
  readonly batch_stats: readonly InferBatchStatistics[];
  readonly memory_usage: readonly { readonly type: string; readonly id: number; readonly byte_size: number }[];
}

export interface ModelIndexEntry {
  readonly name: string;
  readonly version?: string;
  readonly state?: "UNKNOWN" | "READY" | "UNAVAILABLE" | "LOADING" | "UNLOADING";
  readonly reason?: string;
}

/** Overrides of one load: `config` is JSON text, `files` are paths inside the model's folder. */
export interface LoadOptions {
  readonly config?: string;
  readonly files?: ReadonlyMap<string, Uint8Array>;
}

export interface LogSettings {
  readonly log_file: string;
  readonly log_info: boolean;
  readonly log_warning: boolean;
  readonly log_error: boolean;
  readonly log_verbose_level: number;
  readonly log_format: LogFormat;
}

/**
 * While `exiting`, every health request fails with "Server exiting" (unavailable). `failed`: the server could not be set up
 * and was told to stay; it answers, is neither live nor ready, and has no models (SERVER_FAILED_TO_INITIALIZE of Triton).
 */
export type ServerState = "starting" | "running" | "exiting" | "failed";

/** All methods throw `ServerError` for requests that the protocol refuses. */
export interface ModelServer {
  readonly state: ServerState;
  readonly name: string;
  readonly version: string;
  readonly extensions: readonly string[];
  /** Clients may load and unload: `--model-control-mode=explicit`. */
  readonly isExplicit: boolean;
  /** Server readiness under the configured rule (`--strict-readiness`). */
  ready(): boolean;
  /** Resolves a model for any use; version "" = highest ready. @throws ServerError not_found / unavailable */
  model(name: string, version: string): ServedModel;
  /**
   * True when that version is ready, including its own readiness check. @throws ServerError when the version is no
   * number
   */
  modelReady(name: string, version: string): Promise<boolean>;
  modelMetadata(name: string, version: string): ModelMetadata;
  /** name "" = every model, version "" = every version. */
  statistics(name: string, version: string): readonly ModelStatistics[];
  index(readyOnly: boolean): readonly ModelIndexEntry[];
  /** Resolves when the load has ended, with success or failure. */
  load(name: string, options: LoadOptions): Promise<void>;
  unload(name: string, unloadDependents: boolean): Promise<void>;
  /**
   * Adds a folder of this machine as a repository, whose model in `folder` is served as `name`. @throws ServerError
   * already_exists when the repository or the name is registered
   */
  registerRepository(path: string, folder: string, name: string): void;
  /** @throws ServerError for a repository that was not registered */
  unregisterRepository(path: string): void;
  logSettings(): LogSettings;
  updateLogSettings(changes: Partial<LogSettings>): LogSettings;
  /** Creates request traces for front ends. */
  readonly tracing: Pick<Tracing, "isOn" | "start">;
  /** name "" = the server's own settings. @throws ServerError invalid_argument for a model that is not ready */
  traceSettings(name: string): TraceSettings;
  updateTraceSettings(name: string, changes: TraceChanges): TraceSettings;
}
