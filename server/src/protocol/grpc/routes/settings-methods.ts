/** The RPC for log settings (Triton's logging extension). */
import { logFormatOf } from "../../../core/log-format.ts";
import type { LogSettings, ModelServer } from "../../../core/model-server.ts";
import { invalidArgument, ServerError } from "../../../core/server-error.ts";
import type { MessageTypes } from "../messages.ts";
import { type MethodEntry, unaryEntry } from "./unary.ts";

interface SettingValue {
  readonly bool_param?: boolean;
  readonly uint32_param?: number;
  readonly string_param?: string;
}

const MAX_INT32 = 2 ** 31 - 1;

type Settings = Readonly<Record<string, SettingValue>>;

export function settingsEntries(server: ModelServer, types: MessageTypes): readonly MethodEntry[] {
  return [
    unaryEntry<{ settings: Settings }>(types, "LogSettings", "logging", ({ settings }) => {
      const changes = logChanges(settings);
      const isRead = Object.keys(changes).length === 0;
      return { settings: settingsMessage(isRead ? server.logSettings() : server.updateLogSettings(changes)) };
    }),
  ];
}

/** Keys that are no setting mean nothing, as upstream. */
function logChanges(settings: Settings): Partial<LogSettings> {
  const value = (key: string): SettingValue | undefined => (Object.hasOwn(settings, key) ? settings[key] : undefined);
  if (value("log_file") !== undefined) {
    throw new ServerError("unsupported", "log file location can not be updated through network protocol");
  }
  return {
    ...flagChange("log_info", value("log_info")),
    ...flagChange("log_warning", value("log_warning")),
    ...flagChange("log_error", value("log_error")),
    ...levelChange(value("log_verbose_level")),
    ...formatChange(value("log_format")),
  };
}

function flagChange(
  key: "log_info" | "log_warning" | "log_error",
  value: SettingValue | undefined,
): Partial<LogSettings> {
  if (value === undefined) return {};
  if (value.bool_param === undefined) throw invalidArgument(`expect boolean for '${key}'`);
  return { [key]: value.bool_param };
}

function levelChange(value: SettingValue | undefined): Partial<LogSettings> {
  if (value === undefined) return {};
  if (value.uint32_param === undefined) throw invalidArgument("expect int32 for 'log_verbose_level'");
  // Triton keeps it as a signed number, and takes a negative level as none.
  return { log_verbose_level: value.uint32_param > MAX_INT32 ? 0 : value.uint32_param };
}

function formatChange(value: SettingValue | undefined): Partial<LogSettings> {
  if (value === undefined) return {};
  const format = value.string_param;
  if (format === undefined) throw invalidArgument("expect string for 'log_format'");
  const known = logFormatOf(format);
  if (known === undefined) {
    throw invalidArgument(`invalid argument for log_format, got: ${format}`);
  }
  return { log_format: known };
}

function settingsMessage(settings: LogSettings): Record<string, SettingValue> {
  return {
    log_file: { string_param: settings.log_file },
    log_info: { bool_param: settings.log_info },
    log_warning: { bool_param: settings.log_warning },
    log_error: { bool_param: settings.log_error },
    log_verbose_level: { uint32_param: settings.log_verbose_level },
    log_format: { string_param: settings.log_format },
  };
}
