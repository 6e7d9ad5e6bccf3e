/** The answers of `/console/api/`, as the page reads them. Types alone: the page compiles against them. Source: own design. */

export type ModelState = "UNKNOWN" | "READY" | "UNAVAILABLE" | "LOADING" | "UNLOADING";

export interface ConsoleTensor {
  readonly name: string;
  /** Datatype of KServe V2. */
  readonly datatype: string;
  /** Client shape; -1 = any size. */
  readonly shape: readonly number[];
  readonly isOptional: boolean;
}

export interface ConsoleInstances {
  readonly count: number;
  /** Kinds of `config.pbtxt` without `KIND_`: "CPU", "GPU". */
  readonly kinds: readonly string[];
}

export interface ConsoleVersion {
  readonly version: string;
  readonly state: ModelState;
  /** Why it is not ready; "" when it is. */
  readonly reason: string;
  /** The next fields are absent unless the version is ready. */
  readonly backend?: string;
  readonly instances?: ConsoleInstances;
  readonly loadSeconds?: number;
  readonly maxBatchSize?: number;
  readonly isEnsemble?: boolean;
  readonly isDecoupled?: boolean;
  readonly inputs?: readonly ConsoleTensor[];
  readonly outputs?: readonly ConsoleTensor[];
  /** Takes and gives text: it can chat. */
  readonly isText?: boolean;
  /** Bytes by kind of memory; empty: its backend reports none. */
  readonly memoryBytes?: Readonly<Record<string, number>>;
}

export interface ConsoleModel {
  readonly name: string;
  readonly versions: readonly ConsoleVersion[];
  /** Model of which this one is a copy on trial. */
  readonly trialOf?: string;
}

export interface ConsoleOverview {
  readonly server: { readonly name: string; readonly version: string; readonly isReady: boolean };
  /** Models may be loaded and unloaded: `--model-control-mode=explicit`. */
  readonly isExplicit: boolean;
  readonly hasOpenAi: boolean;
  readonly models: readonly ConsoleModel[];
}

/** Quantiles over the last minute, in microseconds; absent: no request ended in it. */
export interface ConsoleLatency {
  readonly p50Us: number;
  readonly p90Us: number;
  readonly p99Us: number;
}

/** Counters only grow, until the model is loaded again. */
export interface ConsoleLlm {
  readonly active: number;
  readonly waiting: number;
  readonly maxRequests: number;
  readonly kvBlocksMax: number;
  readonly kvBlocksUsed: number;
  readonly kvBlocksFree: number;
  /** Counter. */
  readonly kvBlocksReused: number;
  readonly tokensPerBlock: number;
  /** A letter for each block by number, or for some neighbours: f free, c kept for prefixes, u in use, s shared. A second old. */
  readonly kvBlockMap?: string;
  /** Counters. */
  readonly promptTokens: number;
  readonly generatedTokens: number;
  readonly draftTokens: number;
  readonly acceptedDraftTokens: number;
}

export interface ConsoleModelLoad {
  readonly name: string;
  readonly version: string;
  /** Requests that wait for execution. */
  readonly pending: number;
  /** Requests accepted and not ended. */
  readonly inFlight: number;
  /** Counters. */
  readonly numSuccess: number;
  readonly numFailed: number;
  readonly numInferences: number;
  readonly numExecutions: number;
  readonly queueNs: number;
  readonly computeNs: number;
  /** Executions by batch size, ascending. */
  readonly batches: readonly (readonly [size: number, executions: number])[];
  readonly latency?: ConsoleLatency;
  readonly llm?: ConsoleLlm;
}

export interface ConsoleLive {
  /** Milliseconds since the Unix epoch. */
  readonly atMs: number;
  readonly process: { readonly cpuSeconds: number; readonly rssBytes: number };
  readonly models: readonly ConsoleModelLoad[];
}

export interface ConsoleFinding {
  readonly severity: "error" | "warning" | "note";
  readonly file: string;
  readonly line?: number;
  readonly problem: string;
  readonly fix: string;
}

export interface ConsoleDiagnosis {
  readonly findings: readonly ConsoleFinding[];
}

export interface ConsoleLogRecord {
  readonly id: number;
  readonly atMs: number;
  readonly level: "info" | "warning" | "error" | "verbose";
  readonly location: string;
  readonly message: string;
}

export interface ConsoleLogs {
  /** For the next call's `after`. */
  readonly lastId: number;
  readonly records: readonly ConsoleLogRecord[];
}

export interface ConsoleTraceRow {
  readonly id: number;
  readonly model: string;
  readonly version: string;
  readonly requestId: string;
  /** Milliseconds since the Unix epoch. */
  readonly startMs: number;
  readonly durationMs: number;
  readonly queueMs: number;
  readonly computeMs: number;
  readonly numResponses: number;
}

export type SpanKind = "request" | "receive" | "queue" | "input" | "compute" | "output" | "send";

export interface ConsoleSpan {
  readonly kind: SpanKind;
  readonly model: string;
  /** 0 = the client's request; each ensemble step or call is one deeper. */
  readonly depth: number;
  /** From the start of the request. */
  readonly startMs: number;
  readonly endMs: number;
}

export interface ConsoleTrace extends ConsoleTraceRow {
  readonly spans: readonly ConsoleSpan[];
  /** Times of the responses of a stream, from the start of the request: one for each token or group of tokens. */
  readonly responsesMs: readonly number[];
}

export interface ConsoleTraces {
  readonly traces: readonly ConsoleTraceRow[];
}

export interface ConsoleConfig {
  /** Text of the file; "" when the model has none. */
  readonly text: string;
  readonly file: string;
  /** Text that holds until the model is loaded from its file again; absent: the file's holds. */
  readonly applied?: string;
  /** Name of the copy on trial; absent: none. */
  readonly trial?: string;
}

export interface ConsoleConfigProblem {
  /** From 1; absent: no line is responsible. */
  readonly line?: number;
  readonly column?: number;
  readonly message: string;
}

export interface ConsoleConfigCheck {
  readonly problems: readonly ConsoleConfigProblem[];
}
