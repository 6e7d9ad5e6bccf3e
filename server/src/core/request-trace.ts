/**
 * What the way of a request reports to a trace, and what clients may set. Read and called by protocol/, scheduler/ and
 * backend/; implemented by observe/. A request that is not sampled has no trace: looking is all that it costs.
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
  | "INFER_RESPONSE_COMPLETE";

export type TensorMoment = "TENSOR_QUEUE_INPUT" | "TENSOR_BACKEND_INPUT" | "TENSOR_BACKEND_OUTPUT";

/**
 * The trace of one request. It is complete when everybody who holds it has let go: the front end that sampled it from the
 * beginning, the model that serves it from `begin` on.
 */
export interface RequestTrace {
  /** `atMs` is a time of `performance.now()`. */
  mark(moment: TraceMoment, atMs: number): void;
  tensors(moment: TensorMoment, tensors: readonly Tensor[]): void;
  /** The model takes the request over. */
  begin(modelVersion: string, requestId: string, atMs: number): void;
  /** One holder lets go. */
  end(): void;
  /** For a request that this one causes: a step of an ensemble, a call from model to model. */
  child(modelName: string): RequestTrace;
  /** The W3C context to hand on, as JSON text; undefined when the trace stays inside this server. */
  readonly context: string | undefined;
}

/** The headers of a request, by lower-case name. */
export interface TraceHeaders {
  header(name: string): string | undefined;
}

export type TraceLevel = "TIMESTAMPS" | "TENSORS";

export interface TraceSettings {
  readonly mode: "triton" | "opentelemetry";
  /** Empty: off. */
  readonly levels: readonly TraceLevel[];
  /** One of n requests is traced. */
  readonly rate: number;
  /** Traces still to be made; -1: without end. */
  readonly count: number;
  readonly logFrequency: number;
  readonly file: string;
  /** What only the mode in force knows, by name. */
  readonly modeSettings: readonly (readonly [name: string, value: string])[];
}

/** What a client may change. Null goes back to what lies behind: the server's setting, or the one it was started with. */
export interface TraceChanges {
  readonly levels?: readonly TraceLevel[] | null;
  readonly rate?: number | null;
  readonly count?: number | null;
  readonly logFrequency?: number | null;
}

/** The traces of a server, as front ends see them. */
export interface Tracing {
  /** False: no request is sampled now, so there is no use in asking. */
  readonly isOn: boolean;
  /** Undefined: this request is not sampled. Whoever gets a trace calls its `end`. */
  start(modelName: string, headers: TraceHeaders): RequestTrace | undefined;
  /** `model` "" = the server's own. */
  settings(model: string): TraceSettings;
  /** All or nothing. @throws ServerError invalid_argument */
  update(model: string, changes: TraceChanges): TraceSettings;
}
