/** Handlers of the flags of server, models and logs. endpoint-flags.ts has those of the endpoints. */
import { logFormatOf } from "../../core/log-format.ts";
import { ENDPOINT_HANDLERS } from "./endpoint-flags.ts";
import { FlagError } from "./flag-error.ts";
import {
  parseBoolean,
  parseFloat64,
  parseInt32,
  parseInt64,
  parseOptionalScope,
  parsePair,
  parseScopedSetting,
} from "./flag-values.ts";
import type { FlagHandler } from "./options-draft.ts";
import { TRACE_HANDLERS } from "./trace-flags.ts";

/** More than any machine has processors: a typing error, not a wish. */
const MAX_WORKERS = 1024;

const SERVER_HANDLERS: Readonly<Record<string, FlagHandler>> = {
  id: (draft, value) => {
    draft.serverId = value;
  },
  "exit-timeout-secs": (draft, value) => {
    draft.exitTimeoutSecs = Math.max(0, parseInt32(value));
  },
  "drain-delay-secs": (draft, value) => {
    draft.drainDelaySecs = Math.max(0, parseInt32(value));
  },
  workers: (draft, value) => {
    draft.workerCount = parseWorkerCount(value);
  },
  "log-verbose": (draft, value) => {
    draft.log.verboseLevel = parseLevel(value);
  },
  "log-info": (draft, value) => {
    draft.log.info = parseBoolean(value);
  },
  "log-warning": (draft, value) => {
    draft.log.warning = parseBoolean(value);
  },
  "log-error": (draft, value) => {
    draft.log.error = parseBoolean(value);
  },
  "log-format": (draft, value) => {
    const format = logFormatOf(value);
    if (format === undefined) throw new FlagError("invalid argument for --log-format");
    draft.log.format = format;
  },
  "log-file": (draft, value) => {
    draft.log.file = value;
  },
};

const REPOSITORY_HANDLERS: Readonly<Record<string, FlagHandler>> = {
  "model-store": (draft, value) => {
    draft.repository.paths.push(value);
  },
  "model-repository": (draft, value) => {
    draft.repository.paths.push(value);
  },
  "exit-on-error": (draft, value) => {
    draft.repository.exitOnError = parseBoolean(value);
  },
  "disable-auto-complete-config": () => undefined, // settled at the end, together with --strict-model-config
  "strict-model-config": (draft, value) => {
    draft.repository.autoComplete = !parseBoolean(value);
    draft.warnings.push(
      "Warning: '--strict-model-config' has been deprecated! Please use '--disable-auto-complete-config' instead.",
    );
  },
  "strict-readiness": (draft, value) => {
    draft.repository.strictReadiness = parseBoolean(value);
  },
  "model-control-mode": (draft, value) => {
    const mode = value.toLowerCase();
    if (mode !== "none" && mode !== "poll" && mode !== "explicit") {
      throw new FlagError("invalid argument for --model-control-mode");
    }
    draft.repository.controlMode = mode;
  },
  "model-load-overrides": (draft, value) => {
    if (value !== "allow" && value !== "names-only") {
      throw new FlagError("invalid argument for --model-load-overrides, expected allow or names-only");
    }
    draft.repository.loadOverrides = value;
  },
  "repository-poll-secs": (draft, value) => {
    draft.repository.pollSecs = parseInt32(value);
  },
  "load-model": (draft, value) => {
    draft.repository.startupModels.push(value);
  },
  "model-config-name": (draft, value) => {
    draft.repository.configName = notEmpty("model-config-name", value);
  },
  "model-load-thread-count": (draft, value) => {
    draft.repository.loadThreadCount = Math.max(1, parseInt32(value));
  },
  "model-load-retry-count": (draft, value) => {
    draft.repository.loadRetryCount = Math.max(0, parseInt32(value));
  },
  "model-namespacing": (draft, value) => {
    draft.repository.isNamespacing = parseBoolean(value);
  },
};

const RESOURCE_HANDLERS: Readonly<Record<string, FlagHandler>> = {
  "backend-directory": (draft, value) => {
    draft.backendDirectory = value;
  },
  "backend-config": (draft, value) => {
    const { scope, key, value: text } = parseOptionalScope("backend-config", value, "backend name", "backend");
    settingsOf(draft.backendSettings, scope).set(key, text);
  },
  "repoagent-directory": (draft, value) => {
    draft.repoAgentDirectory = notEmpty("repoagent-directory", value);
  },
  "cache-config": (draft, value) => {
    if (value.indexOf(",") <= 0) {
      throw new FlagError(
        `No cache specified. --cache-config option format is <cache name>,<setting>=<value>. Got ${value}`,
      );
    }
    const setting = parseOptionalScope("cache-config", value, "cache name", "cache");
    settingsOf(draft.cache.settings, setting.scope).set(setting.key, setting.value);
  },
  "cache-directory": (draft, value) => {
    draft.cache.directory = value;
  },
  "response-cache-byte-size": (draft, value) => {
    const bytes = String(parseInt64(value));
    settingsOf(draft.cache.settings, "local").set("size", bytes);
    draft.warnings.push(
      `Warning: '--response-cache-byte-size' has been deprecated! This will default to the 'local' cache implementation with the provided byte size for its config. Please use '--cache-config' instead. The equivalent --cache-config CLI args would be: '--cache-config=local,size=${bytes}'`,
    );
  },
  "rate-limit": (draft, value) => {
    const mode = value.toLowerCase();
    if (mode !== "off" && mode !== "execution_count") throw new FlagError("invalid argument for --rate-limit");
    draft.rateLimit.mode = mode;
  },
  "rate-limit-resource": (draft, value) => {
    const [name = "", count, device, ...more] = value.split(":");
    if (count === undefined || more.length > 0) {
      throw new FlagError(
        `--rate-limit-resource option format is '<resource_name>:<count>:<device>' or '<resource_name>:<count>'. Got ${value}`,
      );
    }
    const resource = { name, count: parseInt32(count), device: device === undefined ? -1 : parseInt32(device) };
    draft.rateLimit.resources.push(resource);
  },
};

const MEMORY_HANDLERS: Readonly<Record<string, FlagHandler>> = {
  "pinned-memory-pool-byte-size": (draft, value) => {
    draft.memory.pinnedPoolBytes = parseInt64(value);
  },
  "cuda-memory-pool-byte-size": (draft, value) => {
    const [device, bytes] = parsePair(value, ":");
    draft.memory.cudaPoolBytes.set(parseInt32(device), parseInt64(bytes));
  },
  "cuda-virtual-address-size": (draft, value) => {
    const [device, bytes] = parsePair(value, ":");
    draft.memory.cudaVirtualAddressBytes.set(parseInt32(device), parseInt64(bytes));
  },
  "model-load-gpu-limit": (draft, value) => {
    const [device, fraction] = parsePair(value, ":");
    draft.memory.loadGpuLimits.set(parseInt32(device), parseFraction(fraction));
  },
  "min-supported-compute-capability": (draft, value) => {
    draft.memory.minComputeCapability = parseFloat64(value);
  },
  "buffer-manager-thread-count": (draft, value) => {
    draft.memory.bufferManagerThreadCount = Math.max(0, parseInt32(value));
  },
  "enable-peer-access": (draft, value) => {
    draft.memory.peerAccess = parseBoolean(value);
  },
  "host-policy": (draft, value) => {
    const setting = parseScopedSetting("host-policy", value, ",", "<policy name>,<setting>=<value>");
    settingsOf(draft.memory.hostPolicies, setting.scope).set(setting.key, setting.value);
  },
  "allow-client-shm": (draft, value) => {
    draft.memory.allowClientSharedMemory = parseBoolean(value);
  },
};

export const FLAG_HANDLERS: ReadonlyMap<string, FlagHandler> = new Map(
  [SERVER_HANDLERS, REPOSITORY_HANDLERS, RESOURCE_HANDLERS, MEMORY_HANDLERS, ENDPOINT_HANDLERS, TRACE_HANDLERS].flatMap(
    (handlers) => Object.entries(handlers),
  ),
);

function parseLevel(text: string): number {
  const lower = text.toLowerCase();
  if (lower === "true") return 1;
  return lower === "false" ? 0 : parseInt32(text);
}

function parseFraction(text: string): number {
  const fraction = parseFloat64(text);
  if (fraction < 0 || fraction > 1) throw new FlagError(`expected a fraction from 0 to 1. Got ${text}`);
  return fraction;
}

function notEmpty(flag: string, value: string): string {
  if (value === "") throw new FlagError(`Error: empty argument for --${flag}`);
  return value;
}

function settingsOf(all: Map<string, Map<string, string>>, scope: string): Map<string, string> {
  const settings = all.get(scope) ?? new Map<string, string>();
  all.set(scope, settings);
  return settings;
}

function parseWorkerCount(value: string): number {
  const count = parseInt32(value);
  if (count < 0 || count > MAX_WORKERS) {
    throw new FlagError(`invalid argument for --workers: expected 0 to ${MAX_WORKERS}, got ${value}`);
  }
  return count;
}
