/**
 * Runs the first step of every kind before an engine is ready: kernels are compiled or read, GEMM algorithms chosen, graphs
 * recorded. Bounded in time; what remains is made when it is first needed.
 */
import type { StepInput, StepRunner } from "../step-runner.ts";
import {
  EVERY_CHOICE_ROWS,
  everyChoice,
  planWarmUp,
  type WarmUpBounds,
  type WarmUpStep,
  warmUpChoices,
  warmUpInput,
} from "./warm-up-plan.ts";
import type { WarmUpStore } from "./warm-up-store.ts";

export interface WarmUpOptions {
  /** Tokens of one step. */
  readonly maxTokens: number;
  readonly maxSequences: number;
  /** 0: nothing is done. */
  readonly seconds: number;
  /** Measurements of earlier starts; those of this one are added. */
  readonly store: WarmUpStore;
  readonly tell: (line: string) => void;
  readonly nowMs?: () => number;
}

const MS_PER_S = 1000;

/** @throws Error of a step that fails: the model cannot run */
export async function warmUp(runner: StepRunner, options: WarmUpOptions): Promise<void> {
  const { seconds, store, tell, nowMs = () => performance.now() } = options;
  const known = new Set(store.steps);
  if (seconds <= 0) return;
  const { blockSize, numBlocks, maxPositions } = runner;
  const { maxTokens, maxSequences } = options;
  const bounds = { maxTokens, maxSequences, maxPositions, blockSize, numBlocks };
  const steps = planWarmUp(bounds).filter(({ name, isRecorded }) => isRecorded || !known.has(name));
  const startMs = nowMs();
  const left = await runInTime(runner, steps, bounds, () => nowMs() - startMs < seconds * MS_PER_S);
  const tookS = (nowMs() - startMs) / MS_PER_S;
  tell(describe(steps.length - left.length, left, tookS));
  for (const { name } of steps) known.add(name);
  for (const { name } of left) known.delete(name);
  store.save([...known]);
}

async function runInTime(
  runner: StepRunner,
  steps: readonly WarmUpStep[],
  bounds: WarmUpBounds,
  hasTime: () => boolean,
): Promise<readonly WarmUpStep[]> {
  for (const [i, step] of steps.entries()) {
    if (!hasTime()) return steps.slice(i);
    await runStep(runner, step, bounds);
  }
  return [];
}

async function runStep(runner: StepRunner, step: WarmUpStep, bounds: WarmUpBounds): Promise<void> {
  const input = warmUpInput(step, bounds);
  if (runner.choose === undefined) await runner.run(input);
  else if (step.hasEveryChoice === true) await chooseEveryWay(runner, input);
  else await runner.choose(input, warmUpChoices(input.logitRows.length));
}

/** On several GPUs, runners take neither penalties nor masks. */
async function chooseEveryWay(runner: StepRunner, input: StepInput): Promise<void> {
  if (runner.ruleTables === undefined || runner.chooseLate === undefined) return;
  const choices = everyChoice(runner.vocabSize);
  const late = runner.chooseLate({ ...input, ruleRows: EVERY_CHOICE_ROWS }, choices);
  late.give(choices);
  await late.chosen;
}

function describe(numRun: number, left: readonly WarmUpStep[], seconds: number): string {
  const done = `warm-up: ${numRun} steps in ${seconds.toFixed(1)} s`;
  const [first] = left;
  if (first === undefined) return done;
  return `${done}; ${left.length} more (from ${first.name} on) are made when first needed: see warmup_seconds`;
}
