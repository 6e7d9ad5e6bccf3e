/** Handlers of the flags of HTTP, gRPC, metrics, SageMaker and Vertex AI. */
import { OPENAI_RESTRICTED_APIS, RESTRICTED_APIS, type RestrictedApi } from "../../core/restricted-api.ts";
import { FlagError } from "./flag-error.ts";
import { parseBoolean, parseFloat64, parseInt32, parseInt64, parsePair, parseScopedSetting } from "./flag-values.ts";
import { applyMetricsSetting } from "./metrics-flags.ts";
import type { FlagHandler, OptionsDraft } from "./options-draft.ts";
import { type AccessKey, KEYED_PROTOCOLS, type KeyedProtocol, OPENAI_FRONTENDS } from "./server-options.ts";

type EndpointName = "http" | "grpc" | "metrics" | "sagemaker" | "vertex" | "openai";

const COMPRESSION_LEVELS = ["none", "low", "medium", "high"] as const;
const MIN_GRPC_THREADS = 2;
const MAX_GRPC_THREADS = 128;
const MAX_PORT = 65_535;

function enabled(endpoint: EndpointName): FlagHandler {
  return (draft, value) => {
    draft[endpoint].isEnabled = parseBoolean(value);
  };
}

function port(endpoint: EndpointName): FlagHandler {
  return (draft, value) => {
    const number = parseInt32(value);
    if (number < 0 || number > MAX_PORT) throw new FlagError(`a port is 0 to ${MAX_PORT}. Got ${value}`);
    draft[endpoint].port = number;
  };
}

function address(endpoint: Exclude<EndpointName, "openai">): FlagHandler {
  return (draft, value) => {
    draft[endpoint].address = value;
  };
}

function tlsHandlers(endpoint: "http" | "grpc"): Readonly<Record<string, FlagHandler>> {
  return {
    [`${endpoint}-use-ssl`]: (draft, value) => {
      draft[endpoint].useTls = parseBoolean(value);
    },
    [`${endpoint}-use-ssl-mutual`]: (draft, value) => {
      draft[endpoint].tls.isMutual = parseBoolean(value);
      draft[endpoint].useTls = true;
    },
    [`${endpoint}-server-cert`]: (draft, value) => {
      draft[endpoint].tls.certFile = value;
    },
    [`${endpoint}-server-key`]: (draft, value) => {
      draft[endpoint].tls.keyFile = value;
    },
    [`${endpoint}-root-cert`]: (draft, value) => {
      draft[endpoint].tls.rootCertFile = value;
    },
  };
}

const HTTP_HANDLERS: Readonly<Record<string, FlagHandler>> = {
  "allow-http": enabled("http"),
  "http-address": address("http"),
  "http-port": port("http"),
  "reuse-http-port": (draft, value) => {
    draft.http.reusePort = parseBoolean(value);
  },
  "http-header-forward-pattern": (draft, value) => {
    draft.http.headerForwardPattern = parsePattern(value);
  },
  "http-thread-count": (draft, value) => {
    draft.http.threadCount = parseInt32(value);
  },
  "http-max-input-size": (draft, value) => {
    draft.http.maxInputBytes = positive("http-max-input-size", parseInt64(value));
  },
  ...tlsHandlers("http"),
  "http-max-connection-age": (draft, value) => {
    draft.http.maxConnectionAgeMs = notNegative("http-max-connection-age", parseInt32(value));
  },
  "one-port": (draft, value) => {
    draft.http.isOnePort = parseBoolean(value);
  },
  "cors-origins": (draft, value) => {
    draft.http.cors.origins = value.split(",").map((origin) => parseOrigin(origin.trim()));
  },
  "cors-metrics": (draft, value) => {
    draft.http.cors.includesMetrics = parseBoolean(value);
  },
  "http-restricted-api": (draft, value) => {
    restrict(draft.http.accessKeys, "http-restricted-api", "api", value);
  },
};

const GRPC_HANDLERS: Readonly<Record<string, FlagHandler>> = {
  "allow-grpc": enabled("grpc"),
  "grpc-address": address("grpc"),
  "grpc-port": port("grpc"),
  "reuse-grpc-port": (draft, value) => {
    draft.grpc.reusePort = parseBoolean(value);
  },
  "grpc-header-forward-pattern": (draft, value) => {
    draft.grpc.headerForwardPattern = parsePattern(value);
  },
  "grpc-infer-thread-count": (draft, value) => {
    const count = parseInt32(value);
    if (count < MIN_GRPC_THREADS || count > MAX_GRPC_THREADS) {
      throw new FlagError("invalid argument for --grpc_infer_thread_count. Must be in the range 2 to 128.");
    }
    draft.grpc.inferThreadCount = count;
  },
  "grpc-infer-allocation-pool-size": (draft, value) => {
    draft.grpc.allocationPoolSize = parseInt32(value);
  },
  "grpc-max-response-pool-size": (draft, value) => {
    draft.grpc.maxResponsePoolSize = positive("grpc-max-response-pool-size", parseInt32(value));
  },
  ...tlsHandlers("grpc"),
  "grpc-infer-response-compression-level": (draft, value) => {
    const level = COMPRESSION_LEVELS.find((name) => name === value.toLowerCase());
    // Underscores: Triton's internal setting name, which scripts look for.
    if (level === undefined) throw new FlagError("invalid argument for --grpc_infer_response_compression_level");
    draft.grpc.responseCompression = level;
  },
  "grpc-restricted-protocol": (draft, value) => {
    restrict(draft.grpc.accessKeys, "grpc-restricted-protocol", "protocol", value);
  },
};

function keepaliveNumber(field: Exclude<keyof OptionsDraft["grpc"]["keepalive"], "permitWithoutCalls">): FlagHandler {
  return (draft, value) => {
    draft.grpc.keepalive[field] = parseInt32(value);
  };
}

const KEEPALIVE_HANDLERS: Readonly<Record<string, FlagHandler>> = {
  "grpc-keepalive-time": keepaliveNumber("timeMs"),
  "grpc-keepalive-timeout": keepaliveNumber("timeoutMs"),
  "grpc-keepalive-permit-without-calls": (draft, value) => {
    draft.grpc.keepalive.permitWithoutCalls = parseBoolean(value);
  },
  "grpc-http2-max-pings-without-data": keepaliveNumber("maxPingsWithoutData"),
  "grpc-http2-min-recv-ping-interval-without-data": keepaliveNumber("minPingIntervalWithoutDataMs"),
  "grpc-http2-max-ping-strikes": keepaliveNumber("maxPingStrikes"),
  "grpc-max-connection-age": keepaliveNumber("maxConnectionAgeMs"),
  "grpc-max-connection-age-grace": keepaliveNumber("maxConnectionAgeGraceMs"),
};

const OTHER_HANDLERS: Readonly<Record<string, FlagHandler>> = {
  "allow-metrics": enabled("metrics"),
  "allow-gpu-metrics": (draft, value) => {
    draft.metrics.gpu = parseBoolean(value);
  },
  "allow-cpu-metrics": (draft, value) => {
    draft.metrics.cpu = parseBoolean(value);
  },
  "metrics-address": address("metrics"),
  "metrics-port": port("metrics"),
  "metrics-interval-ms": (draft, value) => {
    draft.metrics.intervalMs = parseFloat64(value);
  },
  "metrics-config": (draft, value) => applyMetricsSetting(draft.metrics, value),
  "allow-openai": enabled("openai"),
  "openai-port": port("openai"),
  "openai-frontend": (draft, value) => {
    const frontend = OPENAI_FRONTENDS.find((name) => name === value);
    if (frontend === undefined) throw new FlagError(`--openai-frontend is openai or triton. Got ${value}`);
    draft.openai.frontend = frontend;
  },
  "allow-lora-updates": (draft, value) => {
    draft.openai.allowsLoraUpdates = parseBoolean(value);
  },
  "allow-mcp": (draft, value) => {
    draft.openai.allowsMcp = parseBoolean(value);
  },
  "allow-console": (draft, value) => {
    draft.console.asked = parseBoolean(value);
  },
  "openai-restricted-api": (draft, value) => restrictOpenAi(draft, value),
  "openai-files-dir": (draft, value) => {
    draft.openai.filesFolder = value;
  },
  "openai-batch-concurrency": (draft, value) => {
    const count = parseInt32(value);
    if (count < 1) throw new FlagError(`--openai-batch-concurrency is at least 1. Got ${value}`);
    draft.openai.batchConcurrency = count;
  },
  "api-key-file": (draft, value) => {
    draft.openai.apiKeyFile = value;
  },
  "api-keys-for": (draft, value) => {
    draft.openai.apiKeysFor = parseKeyedProtocols(value);
  },
  "usage-ledger": (draft, value) => {
    draft.openai.usageLedger = value;
  },
  "allow-sagemaker": enabled("sagemaker"),
  "sagemaker-port": port("sagemaker"),
  "sagemaker-thread-count": (draft, value) => {
    draft.sagemaker.threadCount = parseInt32(value);
  },
  "sagemaker-safe-port-range": (draft, value) => {
    const [low, high] = parsePair(value, "-");
    draft.sagemaker.safePortRange = [parseInt32(low), parseInt32(high)];
  },
  "allow-vertex-ai": enabled("vertex"),
  "vertex-ai-port": port("vertex"),
  "vertex-ai-thread-count": (draft, value) => {
    draft.vertex.threadCount = parseInt32(value);
  },
  "vertex-ai-default-model": (draft, value) => {
    draft.vertex.defaultModel = value;
  },
};

export const ENDPOINT_HANDLERS: Readonly<Record<string, FlagHandler>> = {
  ...HTTP_HANDLERS,
  ...GRPC_HANDLERS,
  ...KEEPALIVE_HANDLERS,
  ...OTHER_HANDLERS,
};

function positive(flag: string, value: number): number {
  if (value <= 0) throw new FlagError(`Error: --${flag} must be greater than 0.`);
  return value;
}

function notNegative(flag: string, value: number): number {
  if (value < 0) throw new FlagError(`Error: --${flag} must not be negative.`);
  return value;
}

/** `APIS KEY VALUE` as Triton's OpenAI front end takes it, or `APIS:KEY=VALUE` as its earlier versions did. */
function restrictOpenAi({ openai }: OptionsDraft, text: string): void {
  const [, spaced = "", key = "", secret = ""] = /^(\S+)\s+(\S+)\s+(.+)$/.exec(text) ?? [];
  const format = "<API>,<API>... <restricted-key> <restricted-value>";
  const setting =
    spaced === ""
      ? parseScopedSetting("openai-restricted-api", text, ":", format)
      : { scope: spaced, key, value: secret };
  for (const name of setting.scope.split(",")) {
    const api = OPENAI_RESTRICTED_APIS.find((known) => known === name);
    if (api === undefined) {
      throw new FlagError(`Unknown API '${name}'. Available APIs: ${OPENAI_RESTRICTED_APIS.join(", ")}`);
    }
    if (openai.accessKeys.has(api)) {
      throw new FlagError(`restricted api '${name}' can not be specified in multiple config groups`);
    }
    openai.accessKeys.set(api, { header: setting.key, value: setting.value });
  }
}

/** As browsers send it: no path, no slash at the end, lower case (RFC 6454, 6.1). */
function parseOrigin(text: string): string {
  if (text === "*" || /^[a-z][a-z0-9+.-]*:\/\/[^/\s?#@A-Z]+$/.test(text)) return text;
  throw new FlagError(`--cors-origins: expected * or an origin such as https://app.example:8443, got '${text}'`);
}

function parseKeyedProtocols(text: string): KeyedProtocol[] {
  return text.split(",").map((name) => {
    const known = KEYED_PROTOCOLS.find((each) => each === name.trim());
    if (known !== undefined) return known;
    throw new FlagError(`--api-keys-for: expected some of ${KEYED_PROTOCOLS.join(", ")}, got '${name}'`);
  });
}

/** RE2's flags in front of a pattern, such as `(?-i)`: header names are compared without case unless it says otherwise. */
const LEADING_FLAGS = /^\(\?([imsU]*)(?:-([imsU]+))?\)/;

function parsePattern(text: string): RegExp | undefined {
  if (text === "") return undefined;
  const [lead = "", on = "", off = ""] = LEADING_FLAGS.exec(text) ?? [];
  const flags = [...new Set(`i${on}`)].filter((flag) => flag !== "U" && !off.includes(flag));
  try {
    return new RegExp(text.slice(lead.length), flags.join(""));
  } catch (cause) {
    throw new FlagError(`not a regular expression: ${text}`, { cause });
  }
}

function restrict(keys: Map<RestrictedApi, AccessKey>, flag: string, what: "api" | "protocol", text: string): void {
  const setting = parseScopedSetting(flag, text, ":", "<config name>:<setting>=<value>");
  for (const name of setting.scope.split(",")) {
    const api = RESTRICTED_APIS.find((known) => known === name);
    if (api === undefined) throw new FlagError(`unknown restricted ${what} '${name}' `);
    if (keys.has(api)) {
      throw new FlagError(`restricted ${what} '${name}' can not be specified in multiple config groups`);
    }
    keys.set(api, { header: setting.key, value: setting.value });
  }
}
