/**
 * Settings of trace mode opentelemetry: from `--trace-config`, then the environment, then defaults. Sources: OpenTelemetry
 * specification, "OpenTelemetry Protocol Exporter" and "SDK environment variables"; Triton documentation, "Trace".
 */
import type { Environment } from "../../../core/environment.ts";
import { invalidArgument } from "../../../core/server-error.ts";
import { flagUrl, type OtlpProtocol, parseBaseUrl, parseExactUrl } from "./otlp-endpoint.ts";
import { parsePairs } from "./otlp-pairs.ts";

export interface OtlpSettings {
  readonly protocol: OtlpProtocol;
  /** The complete URL of the collector. */
  readonly url: string;
  /** Sent with each export; names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  /** For one batch, with all its tries. */
  readonly timeoutMs: number;
  readonly compression: "none" | "gzip";
  /** Paths of PEM files; "" = none. */
  readonly tlsFiles: { readonly ca: string; readonly key: string; readonly cert: string };
  /** Resource attributes of all spans. */
  readonly resource: ReadonlyMap<string, string>;
  /** Maximum queued spans; more are dropped. */
  readonly maxQueueSize: number;
  readonly scheduleDelayMs: number;
  readonly maxExportBatchSize: number;
  /** Variables of the environment that were ignored, as the specification asks. */
  readonly warnings: readonly string[];
}

type Written = readonly (readonly [key: string, value: string])[];
type Variable = keyof Environment & `OTEL_${string}`;
/** @returns undefined for a value that is not one */
type Parse<T> = (text: string) => T | undefined;

const PROTOCOLS: readonly OtlpProtocol[] = ["grpc", "http/protobuf", "http/json"];
const COMPRESSIONS = ["none", "gzip"] as const;
const DEFAULT_TIMEOUT_MS = 10_000;
const DEFAULT_SERVICE = "triton-inference-server";
/** Upper limit of the queue: a server needs its memory for models. */
const MAX_QUEUE_SIZE = 1_000_000;
const MAX_DELAY_MS = 3_600_000;
const A_URL = "a URL of http or https";
const PAIRS = "<key>=<value>,...";

/** @throws ServerError for an invalid setting of the flag; invalid variables become warnings */
export function parseOtlpSettings(written: Written, env: Environment): OtlpSettings {
  const from = new Sources(written, env);
  const protocol = from.read("protocol", PROTOCOL_VARIABLES, PROTOCOLS.join(", "), oneOf(PROTOCOLS)) ?? "http/protobuf";
  const count = (key: string, variable: Variable, max: number, fallback: number): number =>
    from.read(key, [variable], `a number from 1 to ${max}`, countUpTo(max)) ?? fallback;
  const maxQueueSize = count("bsp_max_queue_size", "OTEL_BSP_MAX_QUEUE_SIZE", MAX_QUEUE_SIZE, 2048);
  const maxExportBatchSize = count("bsp_max_export_batch_size", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", MAX_QUEUE_SIZE, 512);
  const headers = from.read("headers", HEADER_VARIABLES, PAIRS, parsePairs) ?? new Map<string, string>();
  const milliseconds = `a number of milliseconds from 1 to ${MAX_DELAY_MS}`;
  return {
    protocol,
    url: readUrl(from, protocol, env),
    headers: new Map([...headers].map(([name, value]) => [name.toLowerCase(), value])),
    timeoutMs: from.read("timeout", TIMEOUT_VARIABLES, milliseconds, countUpTo(MAX_DELAY_MS)) ?? DEFAULT_TIMEOUT_MS,
    compression: from.read("compression", COMPRESSION_VARIABLES, "none, gzip", oneOf(COMPRESSIONS)) ?? "none",
    tlsFiles: {
      ca: env.OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE || env.OTEL_EXPORTER_OTLP_CERTIFICATE || "",
      key: env.OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY || env.OTEL_EXPORTER_OTLP_CLIENT_KEY || "",
      cert: env.OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE || env.OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE || "",
    },
    resource: readResource(written, from),
    maxQueueSize,
    scheduleDelayMs: count("bsp_schedule_delay", "OTEL_BSP_SCHEDULE_DELAY", MAX_DELAY_MS, 5000),
    maxExportBatchSize: Math.min(maxQueueSize, maxExportBatchSize),
    warnings: from.warnings,
  };
}

const PROTOCOL_VARIABLES = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"] as const;
const HEADER_VARIABLES = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"] as const;
const TIMEOUT_VARIABLES = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"] as const;
const COMPRESSION_VARIABLES = ["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"] as const;

/** As shown to clients. Headers may hold secrets and are not shown. */
export function shownOtlpSettings(settings: OtlpSettings): (readonly [name: string, value: string])[] {
  return [
    ["url", settings.url],
    ["resource", [...settings.resource].map(([key, value]) => `${key}=${value}`).join(",")],
    ["bsp_max_queue_size", String(settings.maxQueueSize)],
    ["bsp_schedule_delay", String(settings.scheduleDelayMs)],
    ["bsp_max_export_batch_size", String(settings.maxExportBatchSize)],
  ];
}

/** The flag and the environment: where a value comes from, and whom an invalid one is told. */
class Sources {
  readonly warnings: string[] = [];
  readonly #written: ReadonlyMap<string, string>;
  readonly #env: Environment;

  constructor(written: Written, env: Environment) {
    this.#written = new Map(written);
    this.#env = env;
  }

  /** The last setting of the flag, then the first variable that is set and valid. An empty variable counts as unset. */
  read<T>(key: string | undefined, variables: readonly Variable[], expected: string, parse: Parse<T>): T | undefined {
    const text = key === undefined ? undefined : this.#written.get(key);
    if (text !== undefined && text !== "") {
      const value = parse(text);
      if (value === undefined) throw refused(key ?? "", expected, text);
      return value;
    }
    for (const variable of variables) {
      const set = this.#env[variable] ?? "";
      if (set === "") continue;
      const value = parse(set);
      if (value !== undefined) return value;
      this.warnings.push(`${variable} is ignored: expected ${expected}${isSecret(variable) ? "" : `, got '${set}'`}`);
    }
    return undefined;
  }
}

function readUrl(from: Sources, protocol: OtlpProtocol, env: Environment): string {
  const isInsecure = /^true$/i.test(
    env.OTEL_EXPORTER_OTLP_TRACES_INSECURE || env.OTEL_EXPORTER_OTLP_INSECURE || "false",
  );
  return (
    from.read("url", [], A_URL, (text) => flagUrl(text)) ??
    from.read(undefined, ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"], A_URL, (text) =>
      parseExactUrl(text, protocol, isInsecure),
    ) ??
    from.read(undefined, ["OTEL_EXPORTER_OTLP_ENDPOINT"], A_URL, (text) => parseBaseUrl(text, protocol, isInsecure)) ??
    (protocol === "grpc" ? "http://localhost:4317" : "http://localhost:4318/v1/traces")
  );
}

/** Attributes of the flag precede those of the environment, attribute by attribute. */
function readResource(written: Written, from: Sources): Map<string, string> {
  const resource = new Map([["service.name", DEFAULT_SERVICE]]);
  for (const [key, value] of from.read(undefined, ["OTEL_RESOURCE_ATTRIBUTES"], PAIRS, parsePairs) ?? []) {
    resource.set(key, value);
  }
  const service = from.read(undefined, ["OTEL_SERVICE_NAME"], "a name", (text) => text);
  if (service !== undefined) resource.set("service.name", service);
  for (const [key, value] of written) {
    if (key !== "resource") continue;
    const equalsAt = value.indexOf("=");
    if (equalsAt < 1) throw refused("resource", "<key>=<value>", value);
    resource.set(value.slice(0, equalsAt), value.slice(equalsAt + 1));
  }
  return resource;
}

function oneOf<T extends string>(values: readonly T[]): Parse<T> {
  return (text) => values.find((value) => value === text);
}

function countUpTo(max: number): Parse<number> {
  return (text) => {
    const value = Number(text);
    return /^\d+$/.test(text) && value >= 1 && value <= max ? value : undefined;
  };
}

function isSecret(variable: Variable): boolean {
  return variable.endsWith("_HEADERS");
}

function refused(key: string, expected: string, text: string): Error {
  const got = key === "headers" ? "" : `, got '${text}'`;
  return invalidArgument(`--trace-config opentelemetry,${key}= expects ${expected}${got}`);
}
