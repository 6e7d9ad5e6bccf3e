/** The limits of requests that a runner and the settings of its engine give. Pure. */
import type { EngineConfig } from "../engine-config.ts";
import { longestSequence, type WindowRules } from "../kv/window-blocks.ts";
import type { StepRunner } from "../step-runner.ts";
import type { RequestLimits } from "./check-request.ts";

export function requestLimits(runner: StepRunner, config: EngineConfig, rules: WindowRules): RequestLimits {
  const { vocabSize, hiddenSize, maxPositions, numBlocks } = runner;
  return {
    vocabSize,
    hiddenSize,
    maxSequenceLength: Math.min(
      longestSequence(maxPositions, numBlocks, rules),
      config.maxSequenceLength ?? Number.POSITIVE_INFINITY,
    ),
    maxPromptLength: config.maxPromptLength ?? Number.POSITIVE_INFINITY,
    hasAxes: runner.hasAxes ?? false,
    takesEmbeddings: runner.takesEmbeddings ?? true,
    encoder: runner.encoder,
  };
}
