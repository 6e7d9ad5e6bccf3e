/** The RPC for trace settings, of the server or of one model (Triton's trace extension). */
import type { ModelServer } from "../../../core/model-server.ts";
import { invalidArgument } from "../../../core/server-error.ts";
import { readTraceChanges, shownTraceSettings, type WrittenTraceSettings } from "../../trace-changes.ts";
import type { MessageTypes } from "../messages.ts";
import { type MethodEntry, unaryEntry } from "./unary.ts";

interface SettingValue {
  readonly value: readonly string[];
}

interface TraceSettingRequest {
  readonly model_name: string;
  readonly settings: Readonly<Record<string, SettingValue>>;
}

export function traceSettingEntry(server: ModelServer, types: MessageTypes): MethodEntry {
  return unaryEntry<TraceSettingRequest>(
    types,
    "TraceSetting",
    "trace",
    ({ model_name, settings }) => {
      const before = server.traceSettings(model_name);
      const changes = readTraceChanges(writtenIn(settings));
      const isRead = Object.keys(changes).length === 0;
      const shown = shownTraceSettings(isRead ? before : server.updateTraceSettings(model_name, changes));
      return {
        settings: Object.fromEntries(
          shown.map(([name, value]) => [name, { value: typeof value === "string" ? [value] : value }]),
        ),
      };
    },
    ({ model_name }) => model_name,
  );
}

function writtenIn(settings: TraceSettingRequest["settings"]): WrittenTraceSettings {
  const valuesOf = (name: string): readonly string[] | null | undefined => {
    if (!Object.hasOwn(settings, name)) return undefined;
    const value = settings[name]?.value ?? [];
    return value.length === 0 ? null : value;
  };
  return {
    has: (name) => Object.hasOwn(settings, name),
    beforeCount: " ",
    list: valuesOf,
    text(name) {
      const value = valuesOf(name);
      if (value === undefined || value === null) return value;
      const [only = "", ...more] = value;
      if (more.length === 0) return only;
      throw invalidArgument(`expect only 1 value for '${name}'`);
    },
  };
}
