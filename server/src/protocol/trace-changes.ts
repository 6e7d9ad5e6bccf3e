/**
 * Trace settings between the wire and the server: the same names, values and texts on both protocols (Triton's trace
 * extension).
 */
import type { TraceChanges, TraceLevel, TraceSettings } from "../core/request-trace.ts";
import { invalidArgument, ServerError } from "../core/server-error.ts";

/** The settings of one request, however it is written. Undefined = not there, null = to be cleared. */
export interface WrittenTraceSettings {
  has(name: string): boolean;
  /** @throws ServerError when it is no list of texts */
  list(name: string): readonly string[] | null | undefined;
  /** @throws ServerError when it is no single text */
  text(name: string): string | null | undefined;
  /** In front of a refused count: Triton's two front ends differ. */
  readonly beforeCount: "" | " ";
}

const MAX_INT32 = 2 ** 31 - 1;
const MIN_INT32: number = -(2 ** 31);
const MAX_UINT32: number = 2 ** 32 - 1;
const OFF = "OFF";

/** Names that are no setting mean nothing. @throws ServerError */
export function readTraceChanges(written: WrittenTraceSettings): TraceChanges {
  if (written.has("trace_file")) {
    throw new ServerError("unsupported", "trace file location can not be updated through network protocol");
  }
  const levels = readLevels(written.list("trace_level"));
  const rate = readUnsigned("trace_rate", written);
  const count = readCount(written);
  const logFrequency = readUnsigned("log_frequency", written);
  return {
    ...(levels === undefined ? {} : { levels }),
    ...(rate === undefined ? {} : { rate }),
    ...(count === undefined ? {} : { count }),
    ...(logFrequency === undefined ? {} : { logFrequency }),
  };
}

/** As both protocols answer: the level is a list, everything else a text. */
export function shownTraceSettings(settings: TraceSettings): [name: string, value: string | readonly string[]][] {
  const { levels, rate, count, logFrequency, file, mode, modeSettings } = settings;
  const ofFile: [string, string][] = [
    ["log_frequency", String(logFrequency)],
    ["trace_file", file],
  ];
  return [
    ["trace_level", levels.length === 0 ? [OFF] : levels],
    ["trace_rate", String(rate)],
    ["trace_count", String(count)],
    ...(mode === "triton" ? ofFile : []),
    ["trace_mode", mode],
    ...modeSettings.map(([name, value]): [string, string] => [name, value]),
  ];
}

/** Undefined when none of them is a level. */
function readLevels(names: readonly string[] | null | undefined): readonly TraceLevel[] | null | undefined {
  if (names === undefined || names === null) return names;
  if (names.includes(OFF)) {
    if (names.length === 1) return [];
    throw invalidArgument("Expect only one trace level 'OFF' is specified");
  }
  const levels = (["TIMESTAMPS", "TENSORS"] as const).filter((level) => names.includes(level));
  return levels.length === 0 ? undefined : levels;
}

function readUnsigned(name: string, written: WrittenTraceSettings): number | null | undefined {
  const text = written.text(name);
  if (text === undefined || text === null) return text;
  return parseInt32(name, text, `[ 0, ${MAX_UINT32} ]`) >>> 0; // a negative one wraps around, as upstream
}

function readCount(written: WrittenTraceSettings): number | null | undefined {
  const text = written.text("trace_count");
  if (text === undefined || text === null) return text;
  const count = parseInt32("trace_count", text, `[ -1, ${MAX_INT32} ]`);
  if (count >= -1) return count;
  throw invalidArgument(`Unable to parse 'trace_count'. Expecting value >= -1, got:${written.beforeCount}${text}`);
}

/** The number that the text begins with, as upstream reads it. */
function parseInt32(name: string, text: string, range: string): number {
  const digits = /^\s*[+-]?[0-9]+/.exec(text)?.[0];
  if (digits === undefined) throw invalidArgument(`Unable to parse '${name}', got: ${text}`);
  const value = Number(digits);
  if (value >= MIN_INT32 && value <= MAX_INT32) return value;
  throw invalidArgument(`Unable to parse '${name}', value is out of range ${range}, got: ${text}`);
}
