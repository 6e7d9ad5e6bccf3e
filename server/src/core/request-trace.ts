/**
 * Request tracing interfaces: events of a request, and settings that clients may change. Source: Triton's trace
 * extension. Used by protocol/, scheduler/ and backend/; implemented by observe/. An unsampled request has no trace,
 * and costs one check.
 */
import type { Tensor } from "./tensor.ts";

export type TraceMoment =
  | "HTTP_RECV_START"
  | "HTTP_RECV_END"
  | "HTTP_SEND_START"
  | "HTTP_SEND_END"
  | "GRPC_WAITREAD_START"
  | "GRPC_WAITREAD_END"
  | "GRPC_SEND_START"
  | "GRPC_SEND_END"
  | "REQUEST_START"
  | "QUEUE_START"
  | "COMPUTE_START"
  | "COMPUTE_INPUT_END"
  | "COMPUTE_OUTPUT_START"
  | "COMPUTE_END"
  | "REQUEST_END"
  | "INFER_RESPONSE_COMPLETE"
  /** An activity that a backend names. */
  | `CUSTOM_${string}`;

export type TensorMoment = "TENSOR_QUEUE_INPUT" | "TENSOR_BACKEND_INPUT" | "TENSOR_BACKEND_OUTPUT";

/**
 * The trace of one request, complete when every holder has released it. Holders: the front end that sampled it, and the
 * serving model from `begin` on.
 */
export interface RequestTrace {
  /** `atMs` is a time of `performance.now()`. */
  mark(moment: TraceMoment, atMs: number): void;
  tensors(moment: TensorMoment, tensors: readonly Tensor[]): void;
  /** The model takes ownership of the request. */
  begin(modelVersion: string, requestId: string, atMs: number): void;
  /** One holder releases it. */
  end(): void;
  /** Trace for a request that this one causes: an ensemble step, or a model-to-model call. */
  child(modelName: string): RequestTrace;
  /** The W3C trace context to propagate, as JSON text; undefined when the trace stays inside this server. */
  readonly context: string | undefined;
}

/** Request headers by lower-case name. */
export interface TraceHeaders {
  header(name: string): string | undefined;
}

export type TraceLevel = "TIMESTAMPS" | "TENSORS";

export interface TraceSettings {
  readonly mode: "triton" | "opentelemetry";
  /** Empty: off. */
  readonly levels: readonly TraceLevel[];
  /** Every n-th request is traced. */
  readonly rate: number;
  /** Remaining traces; -1: unlimited. */
  readonly count: number;
  readonly logFrequency: number;
  readonly file: string;
  /** Settings of the active trace mode, by name. */
  readonly modeSettings: readonly (readonly [name: string, value: string])[];
}

/** Settings that a client may change. Null resets to the server's setting, or to the initial one. */
export interface TraceChanges {
  readonly levels?: readonly TraceLevel[] | null;
  readonly rate?: number | null;
  readonly count?: number | null;
  readonly logFrequency?: number | null;
}

/** The traces of a server, as front ends see them. */
export interface Tracing {
  /** False: no request is sampled now, so callers need not ask. */
  readonly isOn: boolean;
  /** Undefined: this request is not sampled. The caller must `end` a trace that it gets. */
  start(modelName: string, headers: TraceHeaders): RequestTrace | undefined;
  /** `model` "" = the server's own. */
  settings(model: string): TraceSettings;
  /** Applies all changes or none. @throws ServerError invalid_argument */
  update(model: string, changes: TraceChanges): TraceSettings;
}
