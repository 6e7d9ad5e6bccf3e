/** Queue and cache hints of a row: priority, salts, retention of blocks. Pure. */
import { invalidArgument } from "../../core/server-error.ts";
import { DEFAULT_RETENTION_PRIORITY, type Retention, type RetentionRange } from "../../engine/kv/retention.ts";
import type { GenerateRequest } from "../../engine/request/generate.ts";
import type { RowInputs } from "./row-inputs.ts";

/** Levels of the model's queue: 1 is the highest, 0 levels = none are configured. */
export interface PriorityLevels {
  readonly numLevels: number;
  readonly defaultLevel: number;
}

type CacheHints = Pick<GenerateRequest, "priority" | "cacheSalt" | "retention" | "tokenSalts">;

/** @throws ServerError naming the input that makes no sense */
export function readCacheHints(inputs: RowInputs, priority: number, levels: PriorityLevels): CacheHints {
  return {
    priority: priorityOf(priority, levels),
    cacheSalt: inputs.text("cache_salt") ?? "",
    retention: readRetention(inputs),
    tokenSalts: inputs.has("prompt_table_extra_ids") ? inputs.bigints("prompt_table_extra_ids") : undefined,
  };
}

/**
 * 0 to 1, 1 = the highest, from a request's level, 1 = the highest. Without levels in the configuration level 1 comes
 * before those that say nothing, which rank as level 2, and higher numbers come behind.
 */
export function priorityOf(level: number, { numLevels, defaultLevel }: PriorityLevels): number {
  if (numLevels === 0) return level === 0 ? 0.5 : 1 / level;
  if (numLevels === 1) return 0.5;
  const known = level >= 1 && level <= numLevels ? level : defaultLevel;
  return 1 - (Math.max(1, known) - 1) / (numLevels - 1);
}

const RANGE_INPUTS = [
  "retention_token_range_starts",
  "retention_token_range_ends",
  "retention_token_range_priorities",
  "retention_token_range_durations_ms",
] as const;

function readRetention(inputs: RowInputs): Retention | undefined {
  const [starts, ends, priorities, durations] = RANGE_INPUTS.map((name) =>
    inputs.has(name) ? inputs.ints(name) : undefined,
  );
  const decodePriority = inputs.int("retention_decode_priority");
  const decodeDurationMs = inputs.int("retention_decode_duration_ms");
  const isSaid = [starts, ends, priorities, durations, decodePriority, decodeDurationMs].some(
    (each) => each !== undefined,
  );
  if (!isSaid) return undefined;
  const count = starts?.length ?? 0;
  const lengths = [starts, ends, priorities].map((each) => each?.length ?? 0);
  if (durations !== undefined) lengths.push(durations.length);
  if (lengths.some((length) => length !== count)) {
    throw invalidArgument(
      `inputs ${RANGE_INPUTS.map((name) => `'${name}'`).join(", ")} have ${lengths.join(", ")} values, ` +
        "expected as many each",
    );
  }
  const ranges = Array.from({ length: count }, (_, i): RetentionRange => {
    const priority = priorities?.[i] ?? DEFAULT_RETENTION_PRIORITY;
    return { start: starts?.[i] ?? 0, end: orEver(ends?.[i]), priority, durationMs: orEver(durations?.[i]) };
  });
  const priority = decodePriority ?? DEFAULT_RETENTION_PRIORITY;
  return { ranges, decode: { priority, durationMs: orEver(decodeDurationMs) } };
}

/** -1 stands for no end. */
function orEver(value: number | undefined): number {
  return value === undefined || value === -1 ? Number.POSITIVE_INFINITY : value;
}
