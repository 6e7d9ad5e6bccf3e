/** The time of single steps of a model on a GPU: decode at several batch sizes and contexts, prefill of whole prompts. */

import { CudaDevice } from "../../server/src/device/cuda/cuda-device.ts";
import { loadCudaRunner } from "../../server/src/engine/cuda/create-runner.ts";
import type { DecoderCudaRunner } from "../../server/src/engine/cuda/cuda-runner.ts";
import { contiguousBlocks, stepOf, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import type { CudaCacheType } from "../../server/src/models/cuda/pass.ts";
import type { CudaMatrixType } from "../../server/src/models/cuda/weights.ts";
import type { MeasuredRunner } from "./ranks.ts";
import { LLAMA_8B, parseSynthetic, SyntheticTensors } from "./synthetic-model.ts";

export interface StepResult {
  readonly kind: string;
  readonly batch: number;
  readonly context: number;
  /** Median of a whole step as the engine sees it; of decode steps from the end of one to the end of the next. */
  readonly stepMs: number;
  readonly hostMs: number;
  /** Time in which the device waits for the host between two steps. */
  readonly idleMs?: number;
  readonly tokensPerSecond: number;
}

export async function loadSynthetic(
  config: Readonly<Record<string, unknown>> = LLAMA_8B,
  options: {
    readonly matrixType?: CudaMatrixType;
    readonly hasMxfp4Experts?: boolean;
    readonly quantizesOutput?: boolean;
    readonly cacheType?: CudaCacheType;
    readonly overlapsLaunches?: boolean;
    readonly maxTokens?: number;
    readonly maxSequences?: number;
    readonly maxPositions?: number;
    readonly blockSize?: number;
    readonly isDeterministic?: boolean;
    readonly hostBytes?: number;
    readonly adapters?: { readonly maxBytes: number; readonly maxRank: number };
  } = {},
): Promise<DecoderCudaRunner> {
  const parsed = parseSynthetic(config);
  const { hasMxfp4Experts = false } = options;
  const startMs = performance.now();
  const runner = await loadCudaRunner(
    new CudaDevice(0, { overlapsLaunches: options.overlapsLaunches ?? true }),
    parsed,
    new SyntheticTensors(parsed, { isFourBit: options.matrixType === "int4", hasMxfp4Experts }),
    {
      matrixType: options.matrixType === "bf16" && hasMxfp4Experts ? undefined : options.matrixType,
      quantizesOutput: options.quantizesOutput,
      cacheType: options.cacheType,
      blockSize: options.blockSize ?? 32,
      numBlocks: 0,
      maxPositions: options.maxPositions ?? 8192,
      maxTokens: options.maxTokens ?? 8192,
      maxSequences: options.maxSequences ?? 256,
      isDeterministic: options.isDeterministic,
      hostBytes: options.hostBytes,
      adapters: options.adapters,
      tell: (line) => console.log(line),
    },
  );
  console.log(`loaded in ${((performance.now() - startMs) / 1000).toFixed(1)} s`);
  return runner;
}

export async function measureDecode(
  runner: MeasuredRunner,
  batch: number,
  context: number,
  numSteps = 24,
  /** Adapters of the sequences, in turn. */
  adapters: readonly number[] = [],
): Promise<StepResult> {
  const blocks = Math.ceil((context + numSteps + 8) / runner.blockSize);
  const sequences = Array.from({ length: batch }, (_, i) => {
    return new TestSequence(contiguousBlocks(i * blocks, blocks), adapters[i % adapters.length]);
  });
  for (const sequence of sequences) sequence.numCached = context;
  const times: number[] = [];
  const { timings } = runner;
  const choices = sequences.map(() => GREEDY);
  const isAhead = runner.stepsAhead === true;
  const rows = Int32Array.from({ length: batch }, (_, i) => i);
  let hostMs = 0;
  let idleMs = 0;
  let doneMs = 0;
  let before: Promise<unknown> | undefined;
  // As the engine does it: a step is enqueued while the one before it runs, whose tokens it computes.
  for (let step = 0; step < numSteps + 4; step++) {
    const input = stepOf(
      runner,
      sequences.map((sequence, i) => ({ sequence, tokens: [(i * 7 + step) % runner.vocabSize] })),
    );
    const { hostMs: beforeHostMs, idleMs: beforeIdleMs } = timings;
    if (!isAhead) await before;
    const chosen = runner.choose?.(step === 0 || !isAhead ? input : { ...input, carried: rows }, choices);
    await before;
    const nowMs = performance.now();
    if (step >= 4) {
      times.push(nowMs - doneMs);
      hostMs += timings.hostMs - beforeHostMs;
      idleMs += timings.idleMs - beforeIdleMs;
    }
    doneMs = nowMs;
    before = chosen;
    for (const sequence of sequences) sequence.numCached += 1;
  }
  await before;
  const stepMs = median(times);
  return {
    kind: "decode",
    batch,
    context,
    stepMs,
    hostMs: hostMs / numSteps,
    idleMs: idleMs / numSteps,
    tokensPerSecond: (batch * 1000) / stepMs,
  };
}

export async function measurePrefill(
  runner: MeasuredRunner,
  batch: number,
  length: number,
  numSteps = 5,
  adapters: readonly number[] = [],
): Promise<StepResult> {
  const blocks = Math.ceil(length / runner.blockSize);
  const times: number[] = [];
  let hostMs = 0;
  for (let step = 0; step < numSteps + 2; step++) {
    const parts = Array.from({ length: batch }, (_, i) => ({
      sequence: new TestSequence(contiguousBlocks(i * blocks, blocks), adapters[i % adapters.length]),
      tokens: Array.from({ length }, (_unused, at) => (at * 31 + i * 17 + step) % runner.vocabSize),
    }));
    const input = stepOf(runner, parts);
    const beforeHostMs = runner.timings.hostMs;
    const startMs = performance.now();
    await (runner.choose?.(
      input,
      parts.map(() => GREEDY),
    ) ?? runner.run(input));
    if (step < 2) continue;
    times.push(performance.now() - startMs);
    hostMs += runner.timings.hostMs - beforeHostMs;
  }
  const stepMs = median(times);
  const tokensPerSecond = (batch * length * 1000) / stepMs;
  return { kind: "prefill", batch, context: length, stepMs, hostMs: hostMs / numSteps, tokensPerSecond };
}

export const GREEDY = {
  temperature: 0,
  topK: 0,
  topP: 0,
  minP: 0,
  seedLow: 0,
  seedHigh: 0,
  index: 0,
  banned: [] as number[],
  numTop: 0,
} as const;

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}
