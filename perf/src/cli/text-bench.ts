/** The part of `nereid bench` for language models: flags to requests and loads, runs, results. */
import { readFileSync } from "node:fs";
import { extname } from "node:path";
import { type FlagValues, UsageError } from "@nereid/server/cli/arguments";
import type { Reporter } from "@nereid/server/files/progress";
import { fileError } from "@nereid/server/files/tool-error";
import { TEXT_ENDPOINTS, type TextEndpoint, type TextRequest } from "../input/text-request.ts";
import { syntheticRequests, type TextRequestOptions, tracedRequests } from "../input/text-requests.ts";
import { tokenCounter, WORD_COUNTER } from "../input/text-source.ts";
import { readTrace } from "../input/trace.ts";
import type { Weighted } from "../plan/lengths.ts";
import type { Level } from "../run/infer-run.ts";
import { runTextLevel, type TextLevel, type TextOptions, type TextResult } from "../run/text-run.ts";
import { OBJECTIVES, type Objective, type ObjectiveName } from "../statistics/text-metrics.ts";
import { parseHeaders, parseTarget, type Target } from "../target/target.ts";
import type { INPUT_FLAGS, LOAD_FLAGS, TARGET_FLAGS, TEXT_FLAGS } from "./bench-flags.ts";
import { searchOf } from "./infer-options.ts";

export type TextFlags = FlagValues<typeof TARGET_FLAGS & typeof LOAD_FLAGS & typeof INPUT_FLAGS & typeof TEXT_FLAGS>;

/** Requests to warm up with unless said otherwise, at most. */
const DEFAULT_WARMUP = 10;
const MIN_REQUESTS = 10;
const MIME: Readonly<Record<string, string>> = {
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".webp": "image/webp",
};

/** Undefined: a load on V2 inference. */
export function endpointOf(flags: Pick<TextFlags, "endpoint-type" | "service-kind">): TextEndpoint | undefined {
  const named = TEXT_ENDPOINTS.find((each) => each === flags["endpoint-type"]);
  return named ?? (flags["service-kind"] === "openai" ? "chat" : undefined);
}

/** Levels to run on a server, and how. */
export interface TextBench {
  readonly warmup: readonly TextRequest[];
  readonly options: TextOptions;
  /** In their order, each with its requests. */
  readonly levels: readonly { readonly level: TextLevel; readonly requests: readonly TextRequest[] }[];
  readonly target: Target;
}

export async function textBench(flags: TextFlags, endpoint: TextEndpoint, url: string): Promise<TextBench> {
  const target = parseTarget(url, flags);
  const counter = flags.tokenizer === undefined ? undefined : await tokenCounter(flags.tokenizer);
  const options: TextOptions = {
    form: {
      endpoint,
      path: flags.endpoint,
      prefix: target.prefix,
      host: target.hostHeader,
      headers: parseHeaders(flags.header),
      isStreamed: flags.streaming || endpoint === "generate_stream",
      extra: Object.fromEntries(flags["extra-inputs"].map(parseExtra)),
    },
    counter: flags["use-server-token-count"] ? undefined : counter,
    objectives: flags.goodput.map(parseObjective),
    maxThreads: flags["max-threads"],
  };
  const asked = requestOptions(flags);
  const words = counter ?? WORD_COUNTER;
  const warmupCount = flags["warmup-request-count"] ?? DEFAULT_WARMUP;
  const warmup = syntheticRequests(warmupCount, { ...asked, seed: asked.seed + 1 }, words);
  if (flags["trace-input"] === undefined) {
    const levels = levelsOf(flags).map((level) => {
      const clients = level.load.kind === "concurrency" ? level.load.clients : 1;
      const count = flags["request-count"] ?? Math.max(MIN_REQUESTS, 2 * clients);
      return { level, requests: syntheticRequests(count, asked, words) };
    });
    return { warmup, options, levels, target };
  }
  const all = readTrace(flags["trace-input"]);
  const entries = all.slice(0, flags["request-count"] ?? all.length);
  const requests = tracedRequests(entries, asked, words);
  if (!flags["fixed-schedule"])
    return { warmup, options, target, levels: levelsOf(flags).map((level) => ({ level, requests })) };
  const first = entries[0]?.atMs ?? 0;
  const timesMs = entries.map(({ atMs }) => {
    if (atMs === undefined) throw new UsageError("--fixed-schedule needs a trace with timestamps");
    return (atMs - first) / flags["schedule-speedup"];
  });
  const level = {
    value: requests.length,
    kind: "trace",
    load: { kind: "schedule", schedule: { kind: "timestamps", timesMs } },
  } as const;
  return { warmup, options, levels: [{ level, requests }], target };
}

function levelsOf(flags: TextFlags): TextLevel[] {
  const search = searchOf(flags);
  const levels: TextLevel[] = [];
  for (;;) {
    const level: Level | undefined = search.next(levels.map(({ value }) => ({ load: value, isGood: true })));
    if (level === undefined) return levels;
    if (level.kind === "intervals")
      throw new UsageError("--request-intervals is for V2 inference; use --trace-input with --fixed-schedule");
    levels.push({ value: level.value, kind: level.kind, load: level.load });
  }
}

function requestOptions(flags: TextFlags): TextRequestOptions {
  const kind = flags["length-distribution"];
  const outputMean = flags["output-tokens-mean"];
  return {
    model: flags.model,
    mix: flags.lora.map(parseWeighted),
    input: { kind, mean: flags["synthetic-input-tokens-mean"], spread: flags["synthetic-input-tokens-stddev"] },
    output: outputMean === undefined ? undefined : { kind, mean: outputMean, spread: flags["output-tokens-stddev"] },
    sharedPrefixTokens: flags["shared-prefix-tokens"],
    images: flags.image.map(dataUrl),
    seed: flags.seed,
  };
}

function parseWeighted(text: string): Weighted<string> {
  const at = text.lastIndexOf("=");
  const weight = at < 0 ? 1 : Number(text.slice(at + 1));
  if (!(weight > 0)) throw new UsageError(`--lora is NAME or NAME=WEIGHT, got '${text}'`);
  return { value: at < 0 ? text : text.slice(0, at), weight };
}

function parseExtra(text: string): [string, unknown] {
  const at = text.indexOf(":");
  if (at < 1) throw new UsageError(`--extra-inputs is NAME:VALUE, got '${text}'`);
  const value = text.slice(at + 1);
  try {
    return [text.slice(0, at), JSON.parse(value)];
  } catch {
    return [text.slice(0, at), value]; // a text without quotes
  }
}

function parseObjective(text: string): Objective {
  const [name = "", limit = ""] = text.split(":");
  const limitMs = Number(limit);
  if (!Object.hasOwn(OBJECTIVES, name) || !(limitMs > 0)) {
    throw new UsageError(`--goodput is NAME:MS with ${Object.keys(OBJECTIVES).join(", ")}, got '${text}'`);
  }
  return { name: name as ObjectiveName, limitMs };
}

function dataUrl(path: string): string {
  const type = MIME[extname(path).toLowerCase()];
  if (type === undefined) throw new UsageError(`--image is a file of ${Object.keys(MIME).join(", ")}, got '${path}'`);
  try {
    return `data:${type};base64,${readFileSync(path).toString("base64")}`;
  } catch (error) {
    throw fileError("read", path, error);
  }
}

export async function runTextBench(
  { warmup, options, levels, target }: TextBench,
  onResult: (result: TextResult) => void,
  reporter: Reporter,
  signal: AbortSignal,
): Promise<void> {
  if (warmup.length > 0) {
    const level = { value: 1, kind: "concurrency", load: { kind: "concurrency", clients: 1 } } as const;
    await runTextLevel(target, warmup, level, options, reporter, signal);
  }
  for (const { level, requests } of levels)
    onResult(await runTextLevel(target, requests, level, options, reporter, signal));
}
