/** A load test of a language model: sends a number of requests, and computes figures of their tokens. */
import { availableParallelism } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { Reporter } from "@nereid/server/files/progress";
import { ToolError } from "@nereid/server/files/tool-error";
import { encodeTextRequest, type TextRequest, type TextRequestForm } from "../input/text-request.ts";
import type { TokenCounter } from "../input/text-source.ts";
import { readAnswer, type TextAnswer } from "../statistics/text-answer.ts";
import {
  type Objective,
  recordOf,
  type TextMetrics,
  type TextRecord,
  textMetrics,
} from "../statistics/text-metrics.ts";
import type { Target } from "../target/target.ts";
import { type GeneratorLimits, type Load, LoadGenerator } from "./load-generator.ts";

export interface TextOptions {
  readonly form: TextRequestForm;
  /** Undefined: tokens are those that the server reports, else events are counted. */
  readonly counter: TokenCounter | undefined;
  readonly objectives: readonly Objective[];
  readonly maxThreads: number | undefined;
}

export interface TextResult {
  readonly load: number;
  readonly kind: "concurrency" | "rate" | "trace";
  readonly metrics: TextMetrics;
  readonly records: readonly TextRecord[];
  readonly limits: GeneratorLimits;
  /** The first failure. */
  readonly failure: string | undefined;
}

export interface TextLevel {
  readonly value: number;
  readonly kind: TextResult["kind"];
  readonly load: Load;
}

/** A stream takes more of a thread than a small answer, and few streams run at a time. */
const MAX_DEFAULT_THREADS = 2;
const POLL_MS = 100;

export async function runTextLevel(
  target: Target,
  requests: readonly TextRequest[],
  level: TextLevel,
  options: TextOptions,
  reporter: Reporter,
  signal: AbortSignal,
): Promise<TextResult> {
  const numThreads = options.maxThreads ?? Math.min(availableParallelism(), MAX_DEFAULT_THREADS);
  const bytes = requests.map((request) => encodeTextRequest(request, options.form));
  await using generator = new LoadGenerator(
    {
      address: target.address,
      transport: "http",
      metadata: [],
      callsPerConnection: 1,
      requests: { kind: "bytes", requests: bytes, next: new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT) },
      keepsParts: true,
      isDecoupled: false,
    },
    numThreads,
  );
  await generator.ready();
  generator.limits();
  generator.apply(level.load);
  await finish(generator, requests.length, `${level.kind} ${level.value}`, reporter, signal);
  const answers = generator.answers.map(readAnswer);
  const good = answers.filter(({ failure }) => failure === undefined);
  const failure = answers.find((answer) => answer.failure !== undefined)?.failure;
  if (good.length === 0) {
    throw new ToolError(`every request failed: ${failure ?? "none was answered"}`, {
      fix: "Check -m, -u and --endpoint-type",
    });
  }
  const records = good.map((answer) => counted(answer, requests[answer.request]?.inputTokens ?? 0, options));
  const metrics = textMetrics(records, answers.length - good.length, options.objectives);
  return { load: level.value, kind: level.kind, metrics, records, limits: generator.limits(), failure };
}

async function finish(
  generator: LoadGenerator,
  count: number,
  task: string,
  reporter: Reporter,
  signal: AbortSignal,
): Promise<void> {
  const progress = reporter.startTask({ task, unit: "requests", total: count });
  let shown = 0;
  const isFinished = generator.finish(signal).then(() => true);
  try {
    for (;;) {
      const isOver = await Promise.race([isFinished, sleep(POLL_MS, false)]);
      progress.add(generator.total - shown);
      shown = generator.total;
      if (isOver) return;
    }
  } finally {
    progress.end();
  }
}

function counted(answer: TextAnswer, inputTokens: number, { counter }: TextOptions): TextRecord {
  const own = counter?.count(answer.text);
  return recordOf(answer, inputTokens, own ?? answer.completionTokens ?? answer.textMs.length);
}
