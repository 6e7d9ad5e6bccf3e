/** Checks of a random load over nereid-tiny, one load at a time: for the test, and for the long run with many more. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import type { DecoderRunnerOptions } from "../../server/src/engine/cpu/cpu-runner.ts";
import type { StepRunner } from "../../server/src/engine/step-runner.ts";
import { createLoad, outputsAlone, outputsTogether, type RealOutput, withDrafts } from "./real-model.ts";

type Types = Pick<DecoderRunnerOptions, "weightType" | "cacheType">;

export const SHAPE = {
  modelDir: fileURLToPath(new URL("../../examples/nereid-tiny/language_model/", import.meta.url)),
  blockSize: 8,
  numBlocks: 64,
  numThreads: 1,
  maxPositions: 128,
} as const;

export const DETERMINISTIC: readonly Types[] = [
  { weightType: "f32" },
  { weightType: "bf16" },
  { weightType: "q8_0", cacheType: "f16" },
];

/** Two tokens this close may change places when sums run in another order. */
export const MARGINS: readonly (readonly ["f32" | "bf16", number])[] = [
  ["f32", 1e-3],
  ["bf16", 3e-2],
];

export interface ExactFigures {
  readonly outputs: number;
  readonly acceptedDraftTokens: number;
  readonly preemptions: number;
}

/**
 * Checks a deterministic runner. @throws AssertionError unless each output is the same to the bit, alone and among
 * others
 */
export async function expectEqualBits(runner: StepRunner, seed: number): Promise<ExactFigures> {
  const load = createLoad(seed, runner.vocabSize, false);
  const alone = await outputsAlone(runner, load);
  const { outputs, acceptedDraftTokens, preemptions } = await outputsTogether(runner, withDrafts(load, alone));
  assert.deepEqual(outputs, alone, `the load of seed ${seed}`);
  return { outputs: outputs.length, acceptedDraftTokens, preemptions };
}

export interface CloseFigures {
  readonly numTokens: number;
  /** For each output that differs: the distance of the two best tokens there. */
  readonly margins: readonly number[];
}

/** @throws AssertionError when an output differs where its two best tokens were further apart */
export async function expectClose(runner: StepRunner, seed: number, bound: number): Promise<CloseFigures> {
  const load = createLoad(seed, runner.vocabSize, true);
  const alone = await outputsAlone(runner, load);
  const { outputs } = await outputsTogether(runner, withDrafts(load, alone));
  const margins = outputs.flatMap((output, i) => marginOfDifference(alone[i] ?? output, output) ?? []);
  assert.ok(
    margins.every((margin) => margin < bound),
    `the load of seed ${seed}: ${margins.join(", ")}`,
  );
  return { numTokens: outputs.reduce((sum, { tokens }) => sum + tokens.length, 0), margins };
}

/** How close the two best tokens were where the outputs first differ; undefined when they do not. */
function marginOfDifference(expected: RealOutput, actual: RealOutput): number | undefined {
  const at = expected.tokens.findIndex((token, i) => token !== actual.tokens[i]);
  if (at >= 0) return expected.margins[at] ?? Number.POSITIVE_INFINITY;
  return expected.tokens.length === actual.tokens.length ? undefined : Number.POSITIVE_INFINITY;
}
