/** The flags of the log as the settings that clients read and change. */
import type { LogSettings } from "../core/model-server.ts";
import type { LogOptions } from "./server-options.ts";

export function logSettings(log: LogOptions): LogSettings {
  return {
    log_file: log.file,
    log_info: log.info,
    log_warning: log.warning,
    log_error: log.error,
    log_verbose_level: log.verboseLevel,
    log_format: log.format,
  };
}
