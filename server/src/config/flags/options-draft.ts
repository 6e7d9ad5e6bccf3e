/** Options while the command line is parsed: the fields of `ServerOptions`, mutable, with their defaults. */
import type { Environment } from "../../core/environment.ts";
import { DEFAULT_HTTP_MAX_INPUT_BYTES } from "../../core/limits.ts";
import type { TraceLevel } from "../../core/request-trace.ts";
import type { OpenAiRestrictedApi, RestrictedApi } from "../../core/restricted-api.ts";
import { parseInt32 } from "./flag-values.ts";
import type { AccessKey, KeyedProtocol, OpenAiFrontend, ServerOptions, TlsOptions } from "./server-options.ts";

/** Mutable at every level, including maps and lists. */
export type Draft<T> = T extends RegExp | string | number | boolean | undefined
  ? T
  : T extends ReadonlyMap<infer K, infer V>
    ? Map<K, Draft<V>>
    : T extends readonly [unknown, unknown]
      ? T
      : T extends readonly (infer E)[]
        ? E[]
        : { -readonly [K in keyof T]: Draft<T[K]> };

export interface OptionsDraft extends Draft<Omit<ServerOptions, "trace" | "grpc" | "http" | "console">> {
  readonly trace: Draft<ServerOptions["trace"]> & TraceDraft;
  readonly http: Draft<Omit<ServerOptions["http"], "tls">> & TlsDraft;
  readonly grpc: Draft<Omit<ServerOptions["grpc"], "tls">> & TlsDraft;
  /** Undefined: no flag says whether there is a console. */
  readonly console: { asked: boolean | undefined };
  /** Names of all given flags. */
  readonly given: Set<string>;
}

export interface TlsDraft {
  useTls: boolean;
  readonly tls: Draft<TlsOptions>;
}

export interface TraceDraft {
  /** OFF takes precedence over other levels. */
  isSwitchedOff: boolean;
  /**
   * Settings of --trace-config by mode; settings for all modes have the empty name. Ordered, because `resource` may
   * repeat.
   */
  readonly written: { scope: string; key: string; value: string }[];
}

const INT32_MAX = 2 ** 31 - 1;

export function createDraft(env: Environment): OptionsDraft {
  // Vertex AI sets this variable: its protocol is then on, and the others are off unless requested.
  const isVertex = env.AIP_MODE === "PREDICTION";
  // Knative serving platforms provide one port in PORT.
  const servicePort = env.K_SERVICE === undefined ? undefined : env.PORT;
  return {
    serverId: "triton",
    exitTimeoutSecs: 30,
    drainDelaySecs: 0,
    workerCount: 0,
    log: { verboseLevel: 0, info: true, warning: true, error: true, format: "default", file: "" },
    repository: {
      paths: [],
      exitOnError: true,
      autoComplete: true,
      strictReadiness: true,
      controlMode: "none",
      loadOverrides: "allow",
      pollSecs: 15,
      startupModels: [],
      configName: "",
      loadThreadCount: 4,
      loadRetryCount: 0,
      isNamespacing: false,
    },
    ...endpointDrafts(isVertex, env.AIP_HTTP_PORT ?? "8080", servicePort),
    trace: {
      mode: "triton",
      levels: [] as TraceLevel[],
      rate: 1000,
      count: -1,
      file: "",
      logFrequency: 0,
      opentelemetry: [],
      isSwitchedOff: false,
      written: [],
    },
    backendDirectory: "/opt/tritonserver/backends",
    backendSettings: new Map(),
    repoAgentDirectory: "/opt/tritonserver/repoagents",
    cache: { settings: new Map(), directory: "/opt/tritonserver/caches" },
    rateLimit: { mode: "off", resources: [] },
    memory: {
      pinnedPoolBytes: 268_435_456,
      cudaPoolBytes: new Map(),
      cudaVirtualAddressBytes: new Map(),
      loadGpuLimits: new Map(),
      minComputeCapability: 0,
      bufferManagerThreadCount: 0,
      peerAccess: true,
      hostPolicies: new Map(),
      allowClientSharedMemory: false,
    },
    warnings: [],
    notYet: [],
    given: new Set(),
  };
}

function endpointDrafts(isVertex: boolean, vertexPort: string, servicePort: string | undefined) {
  return {
    http: {
      isEnabled: !isVertex,
      address: "0.0.0.0",
      port: servicePort === undefined ? 8000 : parseInt32(servicePort),
      reusePort: false,
      useTls: false,
      tls: { isMutual: false, certFile: "", keyFile: "", rootCertFile: "" },
      maxConnectionAgeMs: 0,
      isOnePort: servicePort !== undefined,
      headerForwardPattern: undefined as RegExp | undefined,
      threadCount: 8,
      maxInputBytes: DEFAULT_HTTP_MAX_INPUT_BYTES,
      accessKeys: new Map<RestrictedApi, AccessKey>(),
      cors: { origins: [] as string[], includesMetrics: false },
    },
    grpc: grpcDraft(!isVertex),
    metrics: {
      isEnabled: true,
      address: "",
      port: 8002,
      hasOwnPort: true,
      gpu: true,
      cpu: true,
      intervalMs: 2000,
      counterLatencies: true,
      summaryLatencies: false,
      summaryQuantiles: [
        { quantile: 0.5, error: 0.05 },
        { quantile: 0.9, error: 0.01 },
        { quantile: 0.95, error: 0.001 },
        { quantile: 0.99, error: 0.001 },
        { quantile: 0.999, error: 0.001 },
      ],
      histogramLatencies: false,
      openWork: false,
    },
    openai: {
      isEnabled: true,
      port: undefined as number | undefined,
      frontend: "openai" as OpenAiFrontend,
      allowsLoraUpdates: false,
      accessKeys: new Map<OpenAiRestrictedApi, AccessKey>(),
      filesFolder: undefined as string | undefined,
      batchConcurrency: 8,
      apiKeyFile: undefined as string | undefined,
      apiKeysFor: ["openai"] as KeyedProtocol[],
      usageLedger: undefined as string | undefined,
      allowsMcp: false,
    },
    console: { asked: undefined as boolean | undefined },
    sagemaker: {
      isEnabled: false,
      address: "0.0.0.0",
      port: 8080,
      threadCount: 8,
      safePortRange: undefined as readonly [number, number] | undefined,
    },
    vertex: { isEnabled: isVertex, address: "0.0.0.0", port: parseInt32(vertexPort), threadCount: 8, defaultModel: "" },
  };
}

function grpcDraft(isEnabled: boolean) {
  return {
    isEnabled,
    address: "0.0.0.0",
    port: 8001,
    reusePort: false,
    headerForwardPattern: undefined as RegExp | undefined,
    inferThreadCount: 2,
    allocationPoolSize: 8,
    maxResponsePoolSize: INT32_MAX,
    useTls: false,
    tls: { isMutual: false, certFile: "", keyFile: "", rootCertFile: "" },
    responseCompression: "none" as "none" | "low" | "medium" | "high",
    keepalive: {
      timeMs: 7_200_000,
      timeoutMs: 20_000,
      permitWithoutCalls: false,
      maxPingsWithoutData: 2,
      minPingIntervalWithoutDataMs: 300_000,
      maxPingStrikes: 2,
      maxConnectionAgeMs: 0,
      maxConnectionAgeGraceMs: 0,
    },
    accessKeys: new Map<RestrictedApi, AccessKey>(),
  };
}

/** @throws FlagError with the expected form; the caller adds the flag's name */
export type FlagHandler = (draft: OptionsDraft, value: string) => void;
