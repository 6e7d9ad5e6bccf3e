/** The log flags and environment variables as the settings of Triton's logging extension. */
import type { Environment } from "../../core/environment.ts";
import type { LogSettings } from "../../core/model-server.ts";
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

/** Control characters and quotes of messages are escaped unless the operator says otherwise. */
export function escapesMessages(env: Environment): boolean {
  return env.TRITON_SERVER_ESCAPE_LOG_MESSAGES !== "0";
}
