/** Faults that a model of the backend `fault` shows: from the parameters of its configuration, and of a request. Pure. */
import type { ParameterValue } from "../../core/infer-request.ts";
import { ERROR_CODE_NAMES, type ErrorCode, invalidArgument } from "../../core/server-error.ts";

export interface FaultSettings {
  /** Before the first response. */
  readonly latencyMs: number;
  /** Mean of a further delay, distributed exponentially. */
  readonly jitterMs: number;
  /** Shares of the requests, 0 to 1. */
  readonly errorRate: number;
  readonly hangRate: number;
  readonly crashRate: number;
  readonly errorCode: ErrorCode;
  readonly errorMessage: string;
  /** After a crash the instance is away so long. */
  readonly restartMs: number;
  /** Responses of a decoupled model. */
  readonly responses: number;
  readonly responseIntervalMs: number;
  /** A stream ends with an error, without one, or never, after so many responses; undefined: it is whole. */
  readonly failAfter: number | undefined;
  readonly endAfter: number | undefined;
  readonly hangAfter: number | undefined;
}

const DEFAULTS: FaultSettings = {
  latencyMs: 0,
  jitterMs: 0,
  errorRate: 0,
  hangRate: 0,
  crashRate: 0,
  errorCode: "internal",
  errorMessage: "injected fault",
  restartMs: 1000,
  responses: 1,
  responseIntervalMs: 0,
  failAfter: undefined,
  endAfter: undefined,
  hangAfter: undefined,
};

/** As users write them. */
const NUMBERS: ReadonlyMap<
  string,
  { readonly field: keyof FaultSettings; readonly max: number; readonly isWhole: boolean }
> = new Map([
  ["latency_ms", { field: "latencyMs", max: 3_600_000, isWhole: false }],
  ["jitter_ms", { field: "jitterMs", max: 3_600_000, isWhole: false }],
  ["error_rate", { field: "errorRate", max: 1, isWhole: false }],
  ["hang_rate", { field: "hangRate", max: 1, isWhole: false }],
  ["crash_rate", { field: "crashRate", max: 1, isWhole: false }],
  ["restart_ms", { field: "restartMs", max: 3_600_000, isWhole: false }],
  ["responses", { field: "responses", max: 1_000_000, isWhole: true }],
  ["response_interval_ms", { field: "responseIntervalMs", max: 3_600_000, isWhole: false }],
  ["fail_after_responses", { field: "failAfter", max: 1_000_000, isWhole: true }],
  ["end_after_responses", { field: "endAfter", max: 1_000_000, isWhole: true }],
  ["hang_after_responses", { field: "hangAfter", max: 1_000_000, isWhole: true }],
]);
const ERROR_CODE = "error_code";
const ERROR_MESSAGE = "error_message";
/** In front of the names in a request. */
export const REQUEST_PREFIX = "fault_";
export const FAULT_NAMES: readonly string[] = [...NUMBERS.keys(), ERROR_CODE, ERROR_MESSAGE];

/** `at`: "model 'x'". @throws ServerError */
export function faultSettings(values: ReadonlyMap<string, string>, at: string): FaultSettings {
  return change(DEFAULTS, values, at);
}

/** Settings of one request: those of the model, changed by its parameters with `REQUEST_PREFIX`. @throws ServerError */
export function settingsOfRequest(
  settings: FaultSettings,
  parameters: ReadonlyMap<string, ParameterValue>,
): FaultSettings {
  const own = new Map<string, string>();
  for (const [name, value] of parameters) {
    if (name.startsWith(REQUEST_PREFIX)) own.set(name.slice(REQUEST_PREFIX.length), textOf(value));
  }
  return own.size === 0 ? settings : change(settings, own, "request");
}

function textOf(value: ParameterValue): string {
  return typeof value === "object" ? String(value.double) : String(value);
}

function change(settings: FaultSettings, values: ReadonlyMap<string, string>, at: string): FaultSettings {
  const changed: Record<string, unknown> = { ...settings };
  for (const [name, text] of values) {
    const number = NUMBERS.get(name);
    if (number !== undefined) changed[number.field] = numberOf(name, text, number, at);
    else if (name === ERROR_CODE) changed.errorCode = errorCodeOf(text, at);
    else if (name === ERROR_MESSAGE) changed.errorMessage = text;
    else
      throw invalidArgument(`${at}: the fault backend has no parameter '${name}', expected ${FAULT_NAMES.join(", ")}`);
  }
  const result = changed as unknown as FaultSettings;
  if (result.errorRate + result.hangRate + result.crashRate > 1) {
    throw invalidArgument(`${at}: error_rate, hang_rate and crash_rate are above 1 together`);
  }
  return result;
}

function numberOf(
  name: string,
  text: string,
  { max, isWhole }: { readonly max: number; readonly isWhole: boolean },
  at: string,
): number {
  const value = text.trim() === "" ? Number.NaN : Number(text);
  if (value >= 0 && value <= max && (!isWhole || Number.isInteger(value))) return value;
  throw invalidArgument(`${at}: '${name}' is a ${isWhole ? "whole " : ""}number from 0 to ${max}, got '${text}'`);
}

function errorCodeOf(text: string, at: string): ErrorCode {
  const codes = Object.keys(ERROR_CODE_NAMES) as ErrorCode[];
  const code = codes.find((each) => each === text.toLowerCase());
  if (code === undefined) throw invalidArgument(`${at}: '${ERROR_CODE}' is one of ${codes.join(", ")}, got '${text}'`);
  return code;
}

export type Fault = "none" | "error" | "hang" | "crash";

/** Which fault a request meets. `draw`: 0 <= x < 1. */
export function faultOf({ errorRate, hangRate, crashRate }: FaultSettings, draw: number): Fault {
  if (draw < errorRate) return "error";
  if (draw < errorRate + hangRate) return "hang";
  return draw < errorRate + hangRate + crashRate ? "crash" : "none";
}

/** How a stream goes: its responses, and its end. */
export interface StreamPlan {
  readonly responses: number;
  readonly end: "final" | "error" | "hang";
}

/** The earliest limit counts. */
export function streamPlan({ responses, failAfter, endAfter, hangAfter }: FaultSettings): StreamPlan {
  const ends: (readonly [number | undefined, StreamPlan["end"]])[] = [
    [failAfter, "error"],
    [hangAfter, "hang"],
    [endAfter, "final"],
  ];
  let plan: StreamPlan = { responses, end: "final" };
  for (const [after, end] of ends) {
    if (after !== undefined && after < plan.responses) plan = { responses: after, end };
  }
  return plan;
}
