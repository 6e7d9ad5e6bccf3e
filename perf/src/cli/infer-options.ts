/** Flags of a load on V2 inference as options. */
import { readFileSync } from "node:fs";
import { type FlagValues, UsageError } from "@nereid/server/cli/arguments";
import { fileError, ToolError } from "@nereid/server/files/tool-error";
import type { ParameterValue } from "../input/infer-encoding.ts";
import type { ArrivalSchedule } from "../plan/arrivals.ts";
import { type LoadRange, type MeasuredLoad, nextBinary, nextLinear, parseRange } from "../plan/load-search.ts";
import { concurrencyLevel, type InferOptions, type Level, scheduleLevel } from "../run/infer-run.ts";
import type { LevelResult } from "../run/measure-level.ts";
import { parseHeaders } from "../target/target.ts";
import type { INPUT_FLAGS, LOAD_FLAGS, TARGET_FLAGS } from "./bench-flags.ts";

export type InferFlags = FlagValues<typeof TARGET_FLAGS & typeof LOAD_FLAGS & typeof INPUT_FLAGS>;

/** Which loads are measured; `next` undefined: no further one. */
export interface Search {
  next(measured: readonly MeasuredLoad[]): Level | undefined;
  /** Within the latency threshold. */
  isGood(result: LevelResult): boolean;
  /** The largest concurrency; undefined: not known. */
  readonly maxClients: number | undefined;
}

export function inferOptions(flags: InferFlags): InferOptions {
  const protocol = flags.protocol.toLowerCase() === "grpc" ? "grpc" : "http";
  if (flags.streaming && protocol === "http") throw new UsageError("--streaming needs -i grpc");
  const isByCount = flags["measurement-mode"] === "count_windows";
  return {
    model: flags.model,
    version: flags["model-version"] ?? "",
    protocol,
    isStreaming: flags.streaming,
    headers: parseHeaders(flags.header),
    inputs: {
      sources: flags["input-data"],
      batchSize: flags["batch-size"],
      shapes: new Map(flags.shape.map(parseShape)),
      stringLength: flags["string-length"],
      stringData: flags["string-data"],
      seed: flags.seed,
    },
    parameters: Object.fromEntries(flags["request-parameter"].map(parseParameter)),
    isBinaryInput: flags["input-tensor-format"] === "binary",
    isBinaryOutput: flags["output-tensor-format"] === "binary",
    usesSharedMemory: flags["shared-memory"] === "system",
    outputMemoryBytes: flags["output-shared-memory-size"],
    sequences: sequencePlan(flags),
    maxThreads: flags["max-threads"],
    measure: {
      windowMs: flags["measurement-interval"],
      windowRequests: isByCount ? flags["measurement-request-count"] : 0,
      maxTrials: flags["max-trials"],
      stabilityPercentage: flags["stability-percentage"],
      percentile: flags.percentile,
    },
  };
}

/** "name:1,2,3". @throws UsageError */
export function parseShape(text: string): [string, number[]] {
  const at = text.lastIndexOf(":");
  const dims = text
    .slice(at + 1)
    .split(",")
    .map(Number);
  if (at < 1 || dims.some((dim) => !Number.isInteger(dim) || dim < 0)) {
    throw new UsageError(`--shape is name:1,2,3, got '${text}'`);
  }
  return [text.slice(0, at), dims];
}

function parseParameter(text: string): [string, ParameterValue] {
  const [name = "", value = "", type = ""] = text.split(":");
  const number = Number(value);
  if (["int", "uint", "double"].includes(type) && Number.isFinite(number) && value !== "") return [name, number];
  if (type === "bool" && ["true", "false"].includes(value)) return [name, value === "true"];
  if (type === "string") return [name, value];
  throw new UsageError(`--request-parameter is name:value:type with int, uint, bool, double or string, got '${text}'`);
}

function sequencePlan(flags: InferFlags): InferOptions["sequences"] {
  const text = flags["sequence-id-range"];
  const [firstId = Number.NaN, endId] = text.split(":").map(Number);
  if (!(firstId > 0) || (endId !== undefined && !(endId > firstId))) {
    throw new UsageError(`--sequence-id-range is start:end, got '${text}'`);
  }
  const { "sequence-length": length, "sequence-length-variation": variationPercent, seed } = flags;
  return { length, variationPercent, firstId, endId, seed };
}

export function searchOf(flags: InferFlags): Search {
  const asked = ["concurrency-range", "request-rate-range", "request-intervals"] as const;
  const given = asked.filter((name) => flags[name] !== undefined);
  if (given.length > 1) throw new UsageError(`--${given.join(" and --")} exclude each other`);
  const intervals = flags["request-intervals"];
  if (intervals !== undefined) {
    const schedule = { kind: "intervals", intervalsUs: readIntervals(intervals) } as const;
    return {
      maxClients: undefined,
      isGood: () => true,
      next: ({ length }) => (length > 0 ? undefined : scheduleLevel(schedule, 0, "intervals")),
    };
  }
  const rates = flags["request-rate-range"];
  const range = rangeOf(
    rates ?? flags["concurrency-range"] ?? "1",
    rates === undefined ? "--concurrency-range" : "--request-rate-range",
    flags,
  );
  const next = flags["binary-search"] ? nextBinary : nextLinear;
  const levelOf = (load: number): Level =>
    rates === undefined ? concurrencyLevel(load) : scheduleLevel(scheduleOf(load, flags), load, "rate");
  return {
    maxClients: rates === undefined && range.end > 0 ? range.end : undefined,
    isGood: (result) => isWithinThreshold(result, flags),
    next(measured) {
      const load = next(range, measured);
      return load === undefined ? undefined : levelOf(load);
    },
  };
}

function rangeOf(text: string, flag: string, flags: InferFlags): LoadRange {
  let range: LoadRange;
  try {
    range = parseRange(text, flag);
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
  const isWhole = flag !== "--concurrency-range" || [range.start, range.end, range.step].every(Number.isInteger);
  if (!isWhole) throw new UsageError(`${flag} has whole numbers, got '${text}'`);
  const threshold = flags["latency-threshold"];
  if (range.end === 0 && threshold === 0) throw new UsageError(`${flag} without an end needs --latency-threshold`);
  if (flags["binary-search"] && (threshold === 0 || range.end === 0)) {
    throw new UsageError(`--binary-search needs --latency-threshold, and an end of ${flag}`);
  }
  return range;
}

function isWithinThreshold({ merged }: LevelResult, flags: InferFlags): boolean {
  const thresholdUs = flags["latency-threshold"] * 1000;
  const { percentiles, mean } = merged.latencyUs;
  const latency = flags.percentile === undefined ? mean : (percentiles.get(flags.percentile) ?? Number.NaN);
  return thresholdUs === 0 || latency <= thresholdUs;
}

export function scheduleOf(
  perSecond: number,
  flags: Pick<InferFlags, "request-distribution" | "burstiness" | "seed">,
): ArrivalSchedule {
  const distribution = flags["request-distribution"];
  if (distribution === "constant") return { kind: "constant", perSecond };
  return { kind: "gamma", perSecond, burstiness: distribution === "gamma" ? flags.burstiness : 1, seed: flags.seed };
}

function readIntervals(path: string): readonly number[] {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw fileError("read", path, error);
  }
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const wrong = lines.findIndex((line) => !(Number(line) >= 0));
  if (wrong >= 0)
    throw new ToolError(`expected an interval in us, got '${lines[wrong]}'`, { at: { file: path, line: wrong + 1 } });
  if (!lines.some((line) => Number(line) > 0)) throw new ToolError(`${path}: expected an interval above 0`);
  return lines.map(Number);
}
