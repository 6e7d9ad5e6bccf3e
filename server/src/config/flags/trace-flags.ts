/** Tracing flags: `--trace-config` and the five deprecated ones (Triton documentation, "Trace"). */
import type { Environment } from "../../core/environment.ts";
import { FlagError } from "./flag-error.ts";
import { parseInt32, parseInt64, parseOptionalScope } from "./flag-values.ts";
import type { FlagHandler, OptionsDraft } from "./options-draft.ts";

type Trace = OptionsDraft["trace"];

/** Settings of the batch span processor, which are numbers, and the variables that count where no flag does. */
const SPAN_PROCESSOR_VARIABLES = {
  bsp_max_queue_size: "OTEL_BSP_MAX_QUEUE_SIZE",
  bsp_schedule_delay: "OTEL_BSP_SCHEDULE_DELAY",
  bsp_max_export_batch_size: "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
} as const;

/** Triton's text, whose quotes are not closed: scripts search for it. */
function deprecated(flag: string, instead: string, apply: (trace: Trace, value: string) => void): FlagHandler {
  return (draft, value) => {
    draft.warnings.push(
      `Warning: '--${flag}' has been deprecated and will be removed in future releases. Please use '--trace-config ${instead} instead.`,
    );
    apply(draft.trace, value);
  };
}

export const TRACE_HANDLERS: Readonly<Record<string, FlagHandler>> = {
  "trace-config": ({ trace }, value) => {
    const setting = parseOptionalScope("trace-config", value, "trace mode", "trace mode");
    trace.written.push({ ...setting, scope: setting.scope === "" ? "" : parseMode(setting.scope) });
  },
  "trace-file": deprecated("trace-file", "triton,file=<filepath>", (trace, value) => {
    trace.file = value;
  }),
  "trace-level": deprecated("trace-level", "level=<OFF|TIMESTAMPS|TENSORS>", addLevel),
  "trace-rate": deprecated("trace-rate", "rate=<rate value>", (trace, value) => {
    trace.rate = parseInt32(value);
  }),
  "trace-count": deprecated("trace-count", "count=<count value>", (trace, value) => {
    trace.count = parseInt32(value);
  }),
  "trace-log-frequency": deprecated(
    "trace-log-frequency",
    "triton,log-frequency=<log frequency value>",
    (trace, value) => {
      trace.logFrequency = parseInt32(value);
    },
  ),
};

/** Called once all flags are read, because the mode decides which settings count. @throws FlagError naming the setting */
export function settleTrace({ trace, given, warnings }: OptionsDraft, env: Environment): void {
  const ofAll = trace.written.filter(({ scope }) => scope === "");
  for (const { key, value } of ofAll) {
    warnOfOverride(warnings, given, key, OVERRIDDEN[key]);
    named(key, () => applyGlobal(trace, key, value));
  }
  const ofMode = trace.written.filter(({ scope }) => scope === trace.mode);
  if (trace.mode === "opentelemetry") settleOpenTelemetry({ trace, given, warnings }, ofMode, env);
  else {
    for (const { key, value } of ofMode) {
      warnOfOverride(warnings, given, key, OVERRIDDEN_TRITON[key]);
      named(`triton,${key}`, () => applyTriton(trace, key, value));
    }
  }
  if (trace.isSwitchedOff) trace.levels = [];
}

/** By setting of `--trace-config`: the words for it in the warning that it replaces a deprecated flag. */
const OVERRIDDEN: Readonly<Record<string, string>> = { rate: "rate value", level: "level", count: "count" };
const OVERRIDDEN_TRITON: Readonly<Record<string, string>> = { file: "file", "log-frequency": "log-frequency" };

function warnOfOverride(warnings: string[], given: ReadonlySet<string>, key: string, words: string | undefined): void {
  if (words === undefined || !given.has(`trace-${key}`)) return;
  warnings.push(`Warning: Overriding deprecated '--trace-${key}' in favor of provided ${words} in --trace-config!`);
}

function settleOpenTelemetry(
  { trace, given, warnings }: Pick<OptionsDraft, "trace" | "given" | "warnings">,
  settings: Trace["written"],
  env: Environment,
): void {
  if (given.has("trace-file")) {
    warnings.push("Warning: '--trace-file' is deprecated and will be ignored with opentelemetry tracing mode. ");
  }
  if (given.has("trace-log-frequency")) {
    warnings.push(
      "Warning: '--trace-log-frequency' is deprecated and will be ignored with opentelemetry tracing mode.",
    );
  }
  for (const { key, value } of settings) {
    if (key in SPAN_PROCESSOR_VARIABLES) named(`opentelemetry,${key}`, () => parseInt64(value));
    trace.opentelemetry.push([key, value]);
  }
  for (const [key, variable] of Object.entries(SPAN_PROCESSOR_VARIABLES)) {
    const text = env[variable] ?? "";
    if (text === "" || settings.some((setting) => setting.key === key)) continue;
    named(variable, () => parseInt64(text), "");
  }
}

function named(setting: string, apply: () => void, flag = "--trace-config "): void {
  try {
    apply();
  } catch (error) {
    if (!(error instanceof FlagError)) throw error;
    throw new FlagError(`Bad option: "${flag}${setting}".\n${error.message}\n`, { cause: error });
  }
}

function applyGlobal(trace: Trace, key: string, value: string): void {
  if (key === "rate") trace.rate = parseInt32(value);
  else if (key === "level") addLevel(trace, value);
  else if (key === "mode") trace.mode = parseMode(value);
  else if (key === "count") trace.count = parseInt32(value);
}

function applyTriton(trace: Trace, key: string, value: string): void {
  if (key === "file") trace.file = value;
  else if (key === "log-frequency") trace.logFrequency = parseInt32(value);
}

function addLevel(trace: Trace, text: string): void {
  const level = text.toLowerCase();
  if (level === "off" || level === "false") trace.isSwitchedOff = true;
  else if (level === "tensors") trace.levels = [...new Set([...trace.levels, "TENSORS" as const])];
  else if (["timestamps", "min", "max", "true", "on"].includes(level)) {
    trace.levels = [...new Set([...trace.levels, "TIMESTAMPS" as const])];
  } else throw new FlagError(`invalid value for trace level option: ${level}`);
}

function parseMode(text: string): "triton" | "opentelemetry" {
  const mode = text.toLowerCase();
  if (mode === "triton" || mode === "opentelemetry") return mode;
  throw new FlagError(
    `invalid value for trace mode option: ${mode}. Available options are "triton" and "opentelemetry"`,
  );
}
