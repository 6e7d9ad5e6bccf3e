/**
 * Settings of trace mode opentelemetry, completed from the environment and defaults. Source: OpenTelemetry SDK
 * environment variables; Triton documentation, "Trace".
 */
import type { Environment } from "../../core/environment.ts";
import { invalidArgument, type ServerError } from "../../core/server-error.ts";

export interface OtlpSettings {
  readonly url: string;
  /** Resource attributes of all spans. */
  readonly resource: ReadonlyMap<string, string>;
  /** Maximum queued spans; more are dropped. */
  readonly maxQueueSize: number;
  readonly scheduleDelayMs: number;
  readonly maxExportBatchSize: number;
}

type Written = readonly (readonly [key: string, value: string])[];

const DEFAULT_URL = "http://localhost:4318/v1/traces";
const DEFAULT_SERVICE = "triton-inference-server";
/** Upper limit of the queue: a server needs its memory for models. */
const MAX_QUEUE_SIZE = 1_000_000;
const MAX_DELAY_MS = 3_600_000;

/** @throws ServerError for an invalid value */
export function parseOtlpSettings(written: Written, env: Environment): OtlpSettings {
  const last = new Map(written);
  const number = (key: string, variable: keyof Environment, max: number, fallback: number): number =>
    parseCount(key, last.get(key) ?? env[variable], max, fallback);
  const maxQueueSize = number("bsp_max_queue_size", "OTEL_BSP_MAX_QUEUE_SIZE", MAX_QUEUE_SIZE, 2048);
  return {
    url: parseUrl(last.get("url") ?? DEFAULT_URL),
    resource: parseResource(written),
    maxQueueSize,
    scheduleDelayMs: number("bsp_schedule_delay", "OTEL_BSP_SCHEDULE_DELAY", MAX_DELAY_MS, 5000),
    maxExportBatchSize: Math.min(
      maxQueueSize,
      number("bsp_max_export_batch_size", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", MAX_QUEUE_SIZE, 512),
    ),
  };
}

/** As shown to clients. */
export function shownOtlpSettings(settings: OtlpSettings): (readonly [name: string, value: string])[] {
  return [
    ["url", settings.url],
    ["resource", [...settings.resource].map(([key, value]) => `${key}=${value}`).join(",")],
    ["bsp_max_queue_size", String(settings.maxQueueSize)],
    ["bsp_schedule_delay", String(settings.scheduleDelayMs)],
    ["bsp_max_export_batch_size", String(settings.maxExportBatchSize)],
  ];
}

function parseResource(written: Written): Map<string, string> {
  const resource = new Map([["service.name", DEFAULT_SERVICE]]);
  for (const [key, value] of written) {
    if (key !== "resource") continue;
    const equalsAt = value.indexOf("=");
    if (equalsAt < 1) throw refused("resource", "<key>=<value>", value);
    resource.set(value.slice(0, equalsAt), value.slice(equalsAt + 1));
  }
  return resource;
}

function parseUrl(text: string): string {
  const protocol = URL.canParse(text) ? new URL(text).protocol : "";
  if (protocol === "http:" || protocol === "https:") return text;
  throw refused("url", "a URL of http or https", text);
}

function parseCount(key: string, text: string | undefined, max: number, fallback: number): number {
  if (text === undefined || text === "") return fallback;
  const value = Number(text);
  if (/^[0-9]+$/.test(text) && value >= 1 && value <= max) return value;
  throw refused(key, `a number from 1 to ${max}`, text);
}

function refused(key: string, expected: string, got: string): ServerError {
  return invalidArgument(`--trace-config opentelemetry,${key}= expects ${expected}, got '${got}'`);
}
