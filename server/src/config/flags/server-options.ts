/** Server options from command line and environment, as frozen objects with every default. */

import type { LogFormat } from "../../core/log-format.ts";
import type { TraceLevel } from "../../core/request-trace.ts";
import type { OpenAiRestrictedApi, RestrictedApi } from "../../core/restricted-api.ts";

/** Header name and required value. For gRPC metadata, the name without `triton-grpc-protocol-`. */
export interface AccessKey {
  readonly header: string;
  readonly value: string;
}

export type AccessKeys = ReadonlyMap<RestrictedApi, AccessKey>;

export interface LogOptions {
  readonly verboseLevel: number;
  readonly info: boolean;
  readonly warning: boolean;
  readonly error: boolean;
  readonly format: LogFormat;
  /** Empty: the console. */
  readonly file: string;
}

export interface RepositoryOptions {
  /** Sorted, without repetition. Empty: none was given. */
  readonly paths: readonly string[];
  readonly exitOnError: boolean;
  readonly autoComplete: boolean;
  readonly strictReadiness: boolean;
  readonly controlMode: "none" | "poll" | "explicit";
  /** Whether load requests may bring a configuration and files, or names alone. */
  readonly loadOverrides: "allow" | "names-only";
  /** 0 unless the mode is poll. */
  readonly pollSecs: number;
  /** Sorted, without repetition; "*" stands for all. */
  readonly startupModels: readonly string[];
  /** Empty: config.pbtxt. */
  readonly configName: string;
  readonly loadThreadCount: number;
  readonly loadRetryCount: number;
  readonly isNamespacing: boolean;
}

export interface EndpointOptions {
  readonly isEnabled: boolean;
  readonly address: string;
  readonly port: number;
}

/** Pages of browsers that may read answers of the HTTP and OpenAI ports. */
export interface CorsOptions {
  /** Exact origins, or "*" for every one; empty: none. */
  readonly origins: readonly string[];
  readonly includesMetrics: boolean;
}

export interface HttpOptions extends EndpointOptions {
  readonly cors: CorsOptions;
  readonly reusePort: boolean;
  readonly tls: TlsOptions | undefined;
  /** 0: no limit. */
  readonly maxConnectionAgeMs: number;
  /** One port for HTTP/1.1, HTTP/2 and gRPC; gRPC has no port of its own then. */
  readonly isOnePort: boolean;
  /** Headers with matching names become request parameters. */
  readonly headerForwardPattern: RegExp | undefined;
  readonly threadCount: number;
  readonly maxInputBytes: number;
  readonly accessKeys: AccessKeys;
}

export interface GrpcServerOptions extends EndpointOptions {
  readonly reusePort: boolean;
  readonly headerForwardPattern: RegExp | undefined;
  readonly inferThreadCount: number;
  readonly allocationPoolSize: number;
  readonly maxResponsePoolSize: number;
  readonly tls: TlsOptions | undefined;
  readonly responseCompression: "none" | "low" | "medium" | "high";
  readonly keepalive: KeepaliveOptions;
  readonly accessKeys: AccessKeys;
}

export interface TlsOptions {
  readonly isMutual: boolean;
  /** Paths of PEM files; empty when not given. */
  readonly certFile: string;
  readonly keyFile: string;
  readonly rootCertFile: string;
}

export interface KeepaliveOptions {
  readonly timeMs: number;
  readonly timeoutMs: number;
  readonly permitWithoutCalls: boolean;
  readonly maxPingsWithoutData: number;
  readonly minPingIntervalWithoutDataMs: number;
  readonly maxPingStrikes: number;
  /** 0: no limit. */
  readonly maxConnectionAgeMs: number;
  readonly maxConnectionAgeGraceMs: number;
}

export interface MetricsOptions extends EndpointOptions {
  /** False in a process behind a supervisor, which has the port. */
  readonly hasOwnPort: boolean;
  readonly gpu: boolean;
  readonly cpu: boolean;
  readonly intervalMs: number;
  readonly counterLatencies: boolean;
  readonly summaryLatencies: boolean;
  readonly summaryQuantiles: readonly SummaryQuantile[];
  readonly histogramLatencies: boolean;
  /** Gauges of open connections and calls; not in Triton. */
  readonly openWork: boolean;
}

export interface SummaryQuantile {
  readonly quantile: number;
  readonly error: number;
}

export interface TraceOptions {
  readonly mode: "triton" | "opentelemetry";
  /** Empty: off. */
  readonly levels: readonly TraceLevel[];
  /** Every n-th request is traced. */
  readonly rate: number;
  /** -1: unlimited. */
  readonly count: number;
  readonly file: string;
  readonly logFrequency: number;
  /** Settings of mode opentelemetry, unparsed; `resource` may repeat. */
  readonly opentelemetry: readonly (readonly [key: string, value: string])[];
}

export interface CacheOptions {
  /** Empty: the response cache is off. */
  readonly settings: ReadonlyMap<string, ReadonlyMap<string, string>>;
  readonly directory: string;
}

export interface RateLimitOptions {
  readonly mode: "off" | "execution_count";
  readonly resources: readonly RateLimitResource[];
}

export interface RateLimitResource {
  readonly name: string;
  readonly count: number;
  /** -1: every device. */
  readonly device: number;
}

export interface MemoryOptions {
  readonly pinnedPoolBytes: number;
  /** By device. */
  readonly cudaPoolBytes: ReadonlyMap<number, number>;
  readonly cudaVirtualAddressBytes: ReadonlyMap<number, number>;
  readonly loadGpuLimits: ReadonlyMap<number, number>;
  readonly minComputeCapability: number;
  readonly bufferManagerThreadCount: number;
  readonly peerAccess: boolean;
  /** Settings by policy. */
  readonly hostPolicies: ReadonlyMap<string, ReadonlyMap<string, string>>;
  readonly allowClientSharedMemory: boolean;
}

export const OPENAI_FRONTENDS = ["openai", "triton"] as const;

export type OpenAiFrontend = (typeof OPENAI_FRONTENDS)[number];

/** Listeners whose routes API keys can guard. */
export const KEYED_PROTOCOLS = ["openai", "v2", "grpc", "sagemaker", "vertex-ai"] as const;

export type KeyedProtocol = (typeof KEYED_PROTOCOLS)[number];

export interface OpenAiOptions {
  readonly isEnabled: boolean;
  /** A port of its own beside that of HTTP; undefined: none. */
  readonly port: number | undefined;
  /** Whose errors and list of models clients expect where OpenAI and Triton's own OpenAI front end differ. */
  readonly frontend: OpenAiFrontend;
  /** Whether clients may load and unload LoRA adapters. */
  readonly allowsLoraUpdates: boolean;
  readonly accessKeys: ReadonlyMap<OpenAiRestrictedApi, AccessKey>;
  /** Keeps files and batches; undefined: their routes are off. */
  readonly filesFolder: string | undefined;
  /** Requests of all batches that run at once. */
  readonly batchConcurrency: number;
  /** Undefined: calls need no key. */
  readonly apiKeyFile: string | undefined;
  /** Routes that need a key, when there is a file of keys. */
  readonly apiKeysFor: readonly KeyedProtocol[];
  /** Undefined: use is not written down. */
  readonly usageLedger: string | undefined;
  /** Whether models are tools of the Model Context Protocol. */
  readonly allowsMcp: boolean;
}

export interface ConsoleOptions {
  /** Served at the HTTP port. */
  readonly isEnabled: boolean;
  /** The command line asked for it: its absence ends the start. Else it is on because the listener is on loopback. */
  readonly isRequired: boolean;
}

export interface SagemakerEndpointOptions extends EndpointOptions {
  readonly threadCount: number;
  readonly safePortRange: readonly [low: number, high: number] | undefined;
}

export interface VertexEndpointOptions extends EndpointOptions {
  readonly threadCount: number;
  readonly defaultModel: string;
}

export interface ServerOptions {
  readonly serverId: string;
  readonly exitTimeoutSecs: number;
  /** Delay before draining: not ready, but serving as before. */
  readonly drainDelaySecs: number;
  /** Processes behind a supervisor, each with all models; 0: this process serves. */
  readonly workerCount: number;
  readonly log: LogOptions;
  readonly repository: RepositoryOptions;
  readonly http: HttpOptions;
  readonly grpc: GrpcServerOptions;
  readonly metrics: MetricsOptions;
  readonly openai: OpenAiOptions;
  readonly console: ConsoleOptions;
  readonly sagemaker: SagemakerEndpointOptions;
  readonly vertex: VertexEndpointOptions;
  readonly trace: TraceOptions;
  readonly backendDirectory: string;
  /** By backend; settings for all backends have the empty name. */
  readonly backendSettings: ReadonlyMap<string, ReadonlyMap<string, string>>;
  readonly repoAgentDirectory: string;
  readonly cache: CacheOptions;
  readonly rateLimit: RateLimitOptions;
  readonly memory: MemoryOptions;
  /** Lines for standard error: deprecated flags, and flags parsed leniently. */
  readonly warnings: readonly string[];
  /** Given flags whose features do not exist here: logged once at start. */
  readonly notYet: readonly string[];
}

/** Settings of one backend: its own override those for all. */
export function backendSettingsOf(options: ServerOptions, backend: string): ReadonlyMap<string, string> {
  return new Map([...(options.backendSettings.get("") ?? []), ...(options.backendSettings.get(backend) ?? [])]);
}
