/**
 * Parameters of an inference request: reserved ones for the server, all others for the model (Triton's parameters
 * extension).
 */
import type { InferParameter, InferParameters } from "@nereid/wire";
import { NO_PARAMETERS, NO_SEQUENCE, type ParameterValue, type SequenceInfo } from "../../../core/infer-request.ts";
import { invalidArgument, type ServerError } from "../../../core/server-error.ts";
import { expectCorrelationId } from "../../../core/validate-request.ts";

export interface RequestParameters {
  readonly sequence: SequenceInfo;
  readonly priority: number;
  readonly timeoutUs: number;
  /** The client wants a last message of a decoupled request even if it carries nothing. */
  readonly wantsEmptyFinal: boolean;
  readonly custom: ReadonlyMap<string, ParameterValue>;
}

export const NO_REQUEST_PARAMETERS: RequestParameters = Object.freeze({
  sequence: NO_SEQUENCE,
  priority: 0,
  timeoutUs: 0,
  wantsEmptyFinal: false,
  custom: NO_PARAMETERS,
});

const EMPTY_FINAL = "triton_enable_empty_final_response";
const RESERVED_PREFIX = "triton_";
const RESERVED_KEYS: ReadonlySet<string> = new Set([
  "sequence_id",
  "sequence_start",
  "sequence_end",
  "priority",
  "timeout",
  "headers",
  "binary_data_output",
]);

/** @throws ServerError when a value has the wrong type or a key is reserved */
export function readRequestParameters(parameters: InferParameters): RequestParameters {
  if (parameters.size === 0) return NO_REQUEST_PARAMETERS;
  const custom = new Map<string, ParameterValue>();
  for (const [key, value] of parameters) {
    if (!SERVER_KEYS.has(key)) custom.set(key, customValue(key, value));
  }
  return {
    sequence: readSequence(parameters),
    priority: readPriority(parameters.get("priority")),
    timeoutUs: readTimeout(parameters.get("timeout")),
    wantsEmptyFinal: readFlag(parameters, EMPTY_FINAL),
    custom,
  };
}

const SERVER_KEYS: ReadonlySet<string> = new Set([
  "sequence_id",
  "sequence_start",
  "sequence_end",
  "priority",
  "timeout",
  EMPTY_FINAL,
]);

function customValue(key: string, parameter: InferParameter): ParameterValue {
  if (key.startsWith(RESERVED_PREFIX)) {
    throw invalidArgument(
      `parameter keys starting with '${RESERVED_PREFIX}' are reserved for Triton usage. Only the following keys starting with '${RESERVED_PREFIX}' are allowed: ${EMPTY_FINAL}`,
    );
  }
  switch (parameter.kind) {
    case "bool":
    case "int64":
    case "string":
      return parameter.value;
    case "double":
      return { double: parameter.value };
    default:
      throw wrongType(key, "int64_param, bool_param, or string_param");
  }
}

function readSequence(parameters: InferParameters): SequenceInfo {
  const id = readSequenceId(parameters.get("sequence_id"));
  const start = readFlag(parameters, "sequence_start");
  const end = readFlag(parameters, "sequence_end");
  return id === 0n && !start && !end ? NO_SEQUENCE : { id, start, end };
}

function readSequenceId(parameter: InferParameter | undefined): bigint | string {
  if (parameter === undefined) return 0n;
  if (parameter.kind === "int64") return BigInt.asUintN(64, BigInt(parameter.value));
  if (parameter.kind !== "string") throw wrongType("sequence_id", "int64_param or string_param");
  expectCorrelationId(parameter.value);
  return parameter.value;
}

function readFlag(parameters: InferParameters, key: string): boolean {
  const parameter = parameters.get(key);
  if (parameter === undefined) return false;
  if (parameter.kind !== "bool") throw wrongType(key, "bool_param");
  return parameter.value;
}

function readPriority(parameter: InferParameter | undefined): number {
  if (parameter === undefined) return 0;
  if (parameter.kind !== "int64" && parameter.kind !== "uint64") {
    throw wrongType("priority", "int64_param or uint64_param");
  }
  if (parameter.value < 0) throw invalidArgument("invalid value for 'priority', expected value >= 0.");
  return Number(parameter.value);
}

/** A negative timeout is a huge one upstream, where the value is unsigned: so none. */
function readTimeout(parameter: InferParameter | undefined): number {
  if (parameter === undefined) return 0;
  if (parameter.kind !== "int64") throw wrongType("timeout", "int64_param");
  return Math.max(0, Number(parameter.value));
}

/** The given metadata that matches the pattern, as string parameters beside the client's own. */
export function withForwardedMetadata(
  custom: ReadonlyMap<string, ParameterValue>,
  metadata: NodeJS.Dict<string | string[]>,
  pattern: RegExp | undefined,
): ReadonlyMap<string, ParameterValue> {
  if (pattern === undefined) return custom;
  const all = new Map(custom);
  for (const [key, value] of Object.entries(metadata)) {
    if (value === undefined || key.startsWith(":") || !pattern.test(key)) continue;
    if (RESERVED_KEYS.has(key) || key.startsWith(RESERVED_PREFIX)) {
      throw invalidArgument(`Header '${key}' is reserved for Triton usage and cannot be forwarded.`);
    }
    all.set(key, Array.isArray(value) ? value.join(", ") : value);
  }
  return all;
}

function wrongType(key: string, expected: string): ServerError {
  return invalidArgument(`invalid value type for '${key}' parameter, expected ${expected}.`);
}
