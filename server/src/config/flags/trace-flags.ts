/** Tracing flags: `--trace-config` and the five deprecated ones (Triton documentation, "Trace"). */
import { FlagError } from "./flag-error.ts";
import { parseInt32, parseOptionalScope } from "./flag-values.ts";
import type { FlagHandler, OptionsDraft } from "./options-draft.ts";

type Trace = OptionsDraft["trace"];

function deprecated(flag: string, instead: string, apply: (trace: Trace, value: string) => void): FlagHandler {
  return (draft, value) => {
    draft.warnings.push(
      `Warning: '--${flag}' has been deprecated and will be removed in future releases. Please use '--trace-config ${instead}' instead.`,
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
  "trace-log-frequency": deprecated("trace-log-frequency", "triton,log-frequency=<value>", (trace, value) => {
    trace.logFrequency = parseInt32(value);
  }),
};

/** Called once all flags are read, because the mode decides which settings count. @throws FlagError naming the setting */
export function settleTrace(trace: Trace): void {
  for (const { scope, key, value } of trace.written) {
    if (scope === "") named(key, () => applyGlobal(trace, key, value));
  }
  for (const { scope, key, value } of trace.written) {
    if (scope === "" || scope !== trace.mode) continue;
    if (scope === "opentelemetry") trace.opentelemetry.push([key, value]);
    else named(`triton,${key}`, () => applyTriton(trace, key, value));
  }
  if (trace.isSwitchedOff) trace.levels = [];
}

function named(setting: string, apply: () => void): void {
  try {
    apply();
  } catch (error) {
    if (!(error instanceof FlagError)) throw error;
    throw new FlagError(`Bad option: "--trace-config ${setting}".\n${error.message}\n`, { cause: error });
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
