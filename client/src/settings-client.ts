/**
 * Trace and log settings of a running server (Triton's trace and logging extensions). Sources: docs/protocol of
 * Triton: extension_trace.md, extension_logging.md.
 */
import type { CallOptions } from "./call-options.ts";
import type { InferenceApi } from "./inference-api.ts";
import type { LogSettings, TraceChanges, TraceSettings } from "./server-resources.ts";

export interface TraceOptions extends CallOptions {
  /** Settings of one model. Default: those of the server. */
  readonly model?: string | undefined;
}

export class SettingsClient {
  readonly #api: InferenceApi;

  constructor(api: InferenceApi) {
    this.#api = api;
  }

  trace(options: TraceOptions = {}): Promise<TraceSettings> {
    return this.#api.traceSettings(options.model, undefined, options);
  }

  /** Resolves with all settings after the change. */
  updateTrace(changes: TraceChanges, options: TraceOptions = {}): Promise<TraceSettings> {
    return this.#api.traceSettings(options.model, changes, options);
  }

  log(options: CallOptions = {}): Promise<LogSettings> {
    return this.#api.logSettings(undefined, options);
  }

  /** Resolves with all settings after the change. */
  updateLog(changes: LogSettings, options: CallOptions = {}): Promise<LogSettings> {
    return this.#api.logSettings(changes, options);
  }
}
