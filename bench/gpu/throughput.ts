/** Tokens per second of the whole engine on a GPU, without a server: all requests at once, as offline benchmarks do it. */
import { DEFAULT_ENGINE_CONFIG } from "../../server/src/engine/engine-config.ts";
import { LlmEngine } from "../../server/src/engine/llm-engine.ts";
import { type GenerateRequest, NEUTRAL_REQUEST } from "../../server/src/engine/request/generate.ts";
import type { MeasuredRunner } from "./ranks.ts";

export interface Load {
  readonly numRequests: number;
  readonly inputLength: number;
  readonly outputLength: number;
  readonly maxSequences: number;
  readonly maxBatchTokens: number;
}

export interface ThroughputResult extends Load {
  readonly seconds: number;
  readonly outputTokensPerSecond: number;
  readonly numSteps: number;
  /** Median over requests, from the start of all. */
  readonly firstTokenMs: number;
  /** Parts of a step: enqueueing, waiting for the device, and the rest of the engine's work. */
  readonly stepMs: number;
  readonly enqueueMs: number;
  readonly waitMs: number;
  readonly engineMs: number;
  /** Time in which the device waited, in steps begun behind another. */
  readonly idleMs: number;
}

export async function measureThroughput(runner: MeasuredRunner, load: Load): Promise<ThroughputResult> {
  const { numRequests, inputLength, outputLength, maxSequences, maxBatchTokens } = load;
  const config = { ...DEFAULT_ENGINE_CONFIG, maxSequences, maxBatchTokens };
  const kept: Partial<MeasuredRunner> = { close: () => Promise.resolve() };
  const engine = new LlmEngine(lend(runner, kept), config);
  const before = { ...runner.timings };
  const firstTokens: number[] = [];
  const startMs = performance.now();
  let numTokens = 0;
  await Promise.all(
    Array.from({ length: numRequests }, async (_, i) => {
      let isFirst = true;
      for await (const chunk of engine.generate(requestOf(i, inputLength, outputLength, runner.vocabSize))) {
        if (isFirst && chunk.tokenIds.length > 0) {
          firstTokens.push(performance.now() - startMs);
          isFirst = false;
        }
        numTokens += chunk.tokenIds.length;
      }
    }),
  );
  const ms = performance.now() - startMs;
  await engine.close();
  const numSteps = runner.timings.numSteps - before.numSteps;
  const enqueueMs = (runner.timings.hostMs - before.hostMs) / numSteps;
  const waitMs = (runner.timings.waitMs - before.waitMs) / numSteps;
  firstTokens.sort((a, b) => a - b);
  return {
    ...load,
    seconds: ms / 1000,
    outputTokensPerSecond: (numTokens * 1000) / ms,
    numSteps,
    firstTokenMs: firstTokens[firstTokens.length >> 1] ?? Number.NaN,
    stepMs: ms / numSteps,
    enqueueMs,
    waitMs,
    idleMs: (runner.timings.idleMs - before.idleMs) / Math.max(1, runner.timings.numBehind - before.numBehind),
    engineMs: ms / numSteps - enqueueMs - waitMs,
  };
}

function requestOf(index: number, length: number, maxTokens: number, vocabSize: number): GenerateRequest {
  const promptTokens = Int32Array.from(
    { length },
    (_, at) => (index * 7919 + at * 31 + ((index * at) % 13)) % vocabSize,
  );
  return { ...NEUTRAL_REQUEST, promptTokens, maxTokens };
}

/** The runner without its end: an engine closes what it runs on, and this one is used again. */
function lend(runner: MeasuredRunner, changes: Partial<MeasuredRunner>): MeasuredRunner {
  return new Proxy(runner, {
    get: (target, key) => {
      const value: unknown = Reflect.get(changes, key) ?? Reflect.get(target, key, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
