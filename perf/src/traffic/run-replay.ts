/** Repeats recorded traffic on a server: at its times, faster, or as fast as the server answers. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Reporter } from "@nereid/server/files/progress";
import { type CompareOptions, compareAnswers } from "./compare-answers.ts";
import type { Difference } from "./compare-values.ts";
import type { Recording } from "./read-recording.ts";
import type { Answer, Exchange } from "./recording.ts";
import { type RedactionRules, redactHttp, rulesOf } from "./redact.ts";
import { GrpcRedactor } from "./redact-grpc.ts";
import { type Sender, whyNotSent } from "./send-recorded.ts";

export interface ReplayOptions {
  /** Times are divided by it; undefined: no waiting. */
  readonly speed: number | undefined;
  /** Requests under way at a time, without waiting. */
  readonly concurrency: number;
  readonly compare: CompareOptions;
  readonly timeoutMs: number;
}

export type Outcome = "same" | "different" | "failed" | "skipped";

export interface ReplayedExchange {
  readonly number: number;
  readonly protocol: "http" | "grpc";
  readonly path: string;
  readonly outcome: Outcome;
  readonly differences: readonly Difference[];
  /** Present for a request that failed or was skipped. */
  readonly reason: string | undefined;
  readonly recordedMs: number;
  readonly replayedMs: number | undefined;
}

export async function runReplay(
  { head, exchanges }: Recording,
  senders: Readonly<Record<"http" | "grpc", Sender | undefined>>,
  options: ReplayOptions,
  reporter: Reporter,
  signal: AbortSignal,
): Promise<readonly ReplayedExchange[]> {
  const progress = reporter.startTask({ task: "replay", unit: "requests", total: exchanges.length });
  const results: ReplayedExchange[] = [];
  const masked = createMask(rulesOf(head.redaction));
  const run = async (number: number): Promise<void> => {
    const exchange = exchanges[number];
    if (exchange === undefined) return;
    results.push(await replayOne(exchange, number, senders[exchange.protocol], options, masked, signal));
    progress.add(1);
  };
  try {
    await (options.speed === undefined
      ? inTurn(exchanges.length, options.concurrency, run, signal)
      : atTimes(
          exchanges.map(({ atMs }) => atMs),
          options.speed,
          run,
          signal,
        ));
  } finally {
    progress.end();
  }
  signal.throwIfAborted();
  return results.sort((a, b) => a.number - b.number);
}

async function inTurn(
  count: number,
  concurrency: number,
  run: (number: number) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count && !signal.aborted) await run(next++);
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
}

async function atTimes(
  timesMs: readonly number[],
  speed: number,
  run: (number: number) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const startMs = performance.now();
  const under: Promise<void>[] = [];
  for (const [number, atMs] of timesMs.entries()) {
    const waitMs = startMs + (atMs - (timesMs[0] ?? 0)) / speed - performance.now();
    if (waitMs > 0) await sleep(waitMs, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) break;
    under.push(run(number));
  }
  await Promise.all(under);
}

async function replayOne(
  exchange: Exchange,
  number: number,
  sender: Sender | undefined,
  { compare, timeoutMs }: ReplayOptions,
  masked: Mask,
  signal: AbortSignal,
): Promise<ReplayedExchange> {
  const { protocol, path, answer } = exchange;
  const facts = { number, protocol, path, recordedMs: answer.ms };
  const skipped = sender === undefined ? `no server for ${protocol}` : whyNotSent(exchange);
  if (sender === undefined || skipped !== undefined) {
    return { ...facts, outcome: "skipped", differences: [], reason: skipped, replayedMs: undefined };
  }
  try {
    const either = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const got = await sender.send(exchange, either);
    const differences = compareAnswers(exchange, answer, masked(exchange, got), compare);
    const isUnknown = differences.length === 0 && answer.bodies === undefined;
    const outcome = isUnknown ? "skipped" : differences.length === 0 ? "same" : "different";
    const reason = isUnknown ? "the recorded answer was left out; the status is the same" : undefined;
    return { ...facts, outcome, differences, reason, replayedMs: got.ms };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { ...facts, outcome: "failed", differences: [], reason, replayedMs: undefined };
  }
}

type Mask = (exchange: Exchange, answer: Answer) => Answer;

/** The recorded answer was masked, so the new one is masked alike. */
function createMask(rules: RedactionRules): Mask {
  const grpc = new GrpcRedactor(rules);
  return ({ protocol, path }, answer) => {
    if (answer.bodies === undefined) return answer;
    if (protocol === "grpc") {
      const bodies = answer.bodies.map((body) => grpc.redact(body, path, "answer"));
      return { ...answer, bodies: bodies.every((each) => each !== undefined) ? bodies : undefined };
    }
    const stated = answer.headers.find(([name]) => name === "inference-header-content-length")?.[1];
    const isCompressed = answer.headers.some(([name]) => name === "content-encoding");
    const jsonLength = stated === undefined ? undefined : Number(stated);
    const redacted = redactHttp({ bytes: Buffer.concat(answer.bodies), jsonLength, isCompressed }, rules);
    if ("omitted" in redacted) return { ...answer, bodies: undefined };
    const headers = answer.headers.map(([name, value]): readonly [string, string] =>
      name === "inference-header-content-length" ? [name, String(redacted.jsonLength)] : [name, value],
    );
    return { ...answer, headers, bodies: [redacted.bytes] };
  };
}
