/** Rules of trace and log settings (server, http_server.cc `HandleTrace()` and `HandleLogging()`). */
import type { HttpRow } from "./http-row.ts";

const TRACE = "POST /v2/trace/setting";
const LOGS = "POST /v2/logging";
const NOT_BOOLEAN = "attempt to access JSON non-boolean as boolean";

function trace(level: string, rate: string, count: string, frequency: string): string {
  return `{"trace_level":[${level}],"trace_rate":"${rate}","trace_count":"${count}","log_frequency":"${frequency}","trace_file":"nereid-rules-trace.json","trace_mode":"triton"}`;
}

function set(rule: string, body: unknown, says: string, status = 200, to = TRACE): HttpRow {
  return { rule, to, body: JSON.stringify(body), status, says };
}

function logs(info: boolean, warning: boolean, error: boolean, verbose: number, format: string): string {
  return `{"log_file":"","log_info":${info},"log_warning":${warning},"log_error":${error},"log_verbose_level":${verbose},"log_format":"${format}"}`;
}

const STRING = "attempt to access JSON non-string as string";

export const SETTINGS_ROWS: readonly HttpRow[] = [
  { rule: "as the flags say", to: "/v2/trace/setting", status: 200, says: trace('"OFF"', "6", "9", "0") },
  set("a number that is no text", { trace_rate: 5 }, STRING, 500),
  set("a count that is no text", { trace_count: true }, STRING, 500),
  set("a level that is no list", { trace_level: "OFF" }, "attempt to access JSON non-array as array", 500),
  set("a level that is no text", { trace_level: [1] }, STRING, 500),
  set("a rate in words", { trace_rate: "six" }, "Unable to parse 'trace_rate', got: six", 400),
  set("a frequency in words", { log_frequency: "" }, "Unable to parse 'log_frequency', got: ", 400),
  set(
    "a count beyond 32 bits",
    { trace_count: "2147483648" },
    "Unable to parse 'trace_count', value is out of range [ -1, 2147483647 ], got: 2147483648",
    400,
  ),
  set("a count of -2", { trace_count: "-2" }, "Unable to parse 'trace_count'. Expecting value >= -1, got:-2", 400),
  set("a rate of 0 while tracing is off", { trace_rate: "0" }, trace('"OFF"', "0", "9", "0")),
  set(
    "tracing at a rate of 0",
    { trace_level: ["TIMESTAMPS"] },
    "Attempting to set invalid trace setting :sample rate must be non-zero",
    400,
  ),
  set("the mode is not read", { trace_mode: "opentelemetry" }, trace('"OFF"', "0", "9", "0")),
  set("letters behind a number", { trace_rate: "12abc" }, trace('"OFF"', "12", "9", "0")),
  set("an unknown level", { trace_level: ["ALL"] }, trace('"OFF"', "12", "9", "0")),
  set("both levels", { trace_level: ["TENSORS", "TIMESTAMPS"] }, trace('"TIMESTAMPS","TENSORS"', "12", "9", "0")),
  set(
    "several at once",
    { trace_rate: "3", trace_count: "-1", log_frequency: "2" },
    trace('"TIMESTAMPS","TENSORS"', "3", "-1", "2"),
  ),
  {
    rule: "a model follows",
    to: "/v2/models/floats/trace/setting",
    status: 200,
    says: trace('"TIMESTAMPS","TENSORS"', "3", "-1", "2"),
  },
  set(
    "of a model",
    { trace_rate: "44" },
    trace('"TIMESTAMPS","TENSORS"', "44", "-1", "2"),
    200,
    "POST /v2/models/floats/trace/setting",
  ),
  set("of all behind it", { trace_rate: "5", trace_level: ["OFF"] }, trace('"OFF"', "5", "-1", "2")),
  {
    rule: "it keeps what is its own",
    to: "/v2/models/floats/trace/setting",
    status: 200,
    says: trace('"OFF"', "44", "-1", "2"),
  },
  {
    rule: "another follows",
    to: "/v2/models/other/trace/setting",
    status: 200,
    says: trace('"OFF"', "5", "-1", "2"),
  },
  set(
    "null gives it up",
    { trace_rate: null },
    trace('"OFF"', "5", "-1", "2"),
    200,
    "POST /v2/models/floats/trace/setting",
  ),
  set(
    "null is the value of the start",
    { trace_rate: null, trace_count: null, log_frequency: null },
    trace('"OFF"', "6", "9", "0"),
  ),
  set("an empty object changes nothing", {}, trace('"OFF"', "6", "9", "0")),
  set("as at the start", {}, logs(true, true, true, 0, "default"), 200, LOGS),
  set(
    "the file, though null is none",
    { log_file: null, log_info: null },
    logs(true, true, true, 0, "default"),
    200,
    LOGS,
  ),
  set("a file", { log_file: "" }, "log file location can not be updated through network protocol", 501, LOGS),
  set("a flag as a text", { log_info: "false" }, NOT_BOOLEAN, 500, LOGS),
  set("a flag as a number", { log_error: 0 }, NOT_BOOLEAN, 500, LOGS),
  set(
    "a level below 0",
    { log_verbose_level: -1 },
    "attempt to access JSON non-unsigned-integer as unsigned-integer",
    500,
    LOGS,
  ),
  set(
    "a level with a fraction",
    { log_verbose_level: 1.5 },
    "attempt to access JSON non-unsigned-integer as unsigned-integer",
    500,
    LOGS,
  ),
  set("a format as a number", { log_format: 1 }, STRING, 500, LOGS),
  set("an unknown format", { log_format: "DEFAULT" }, "invalid argument for --log_format, got: DEFAULT", 503, LOGS),
  { rule: "as it says", to: "/v2/logging", status: 200, says: logs(true, true, true, 0, "default") },
  set(
    "several",
    { log_info: false, log_warning: true, log_format: "ISO8601", extra: 1 },
    logs(false, true, true, 0, "ISO8601"),
    200,
    LOGS,
  ),
];
