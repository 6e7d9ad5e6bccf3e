/** The numbers an engine tells about itself. A flat record, so that it crosses a process boundary as one float array. */

import type { StepPlan } from "./plan/step-plan.ts";
import type { StepPlanner } from "./plan/step-planner.ts";
import type { Usage } from "./request/generate.ts";
import type { StepRunner } from "./step-runner.ts";

export interface EngineStats {
  /** Requests in the engine, running in the last step, waiting for it, and the most that can run. */
  active: number;
  scheduled: number;
  waiting: number;
  maxRequests: number;
  /** Scheduled requests that are prefilling, and that are decoding. */
  context: number;
  generating: number;
  /** Preempted and waiting to be computed again. */
  paused: number;
  preemptions: number;
  kvBlocksMax: number;
  kvBlocksFree: number;
  kvBlocksUsed: number;
  tokensPerBlock: number;
  /** Since the start: blocks taken from the prefix cache and blocks newly written. */
  kvBlocksReused: number;
  kvBlocksNew: number;
  /** Blocks offloaded to the host KV cache, and onboarded from it, since the start. */
  kvBlocksOffloaded: number;
  kvBlocksOnboarded: number;
  iteration: number;
  /** Prompt tokens computed in the last step. */
  contextTokens: number;
  /** Tokens of finished requests since the start. */
  inputTokens: number;
  outputTokens: number;
  /** Draft tokens verified, and accepted. */
  draftTokens: number;
  acceptedDraftTokens: number;
  /** Wall clock of the last step, and how long it and all steps took. */
  timestampUs: number;
  lastStepMs: number;
  totalStepMs: number;
  /** Resident memory of the engine's process, as of the start, the last idle moment or one of the last steps. */
  cpuBytes: number;
  /** Sum over all GPUs of the engine. */
  gpuBytes: number;
}

export const ZERO_STATS: Readonly<EngineStats> = Object.freeze({
  active: 0,
  scheduled: 0,
  waiting: 0,
  maxRequests: 0,
  context: 0,
  generating: 0,
  paused: 0,
  preemptions: 0,
  kvBlocksMax: 0,
  kvBlocksFree: 0,
  kvBlocksUsed: 0,
  tokensPerBlock: 0,
  kvBlocksReused: 0,
  kvBlocksNew: 0,
  kvBlocksOffloaded: 0,
  kvBlocksOnboarded: 0,
  iteration: 0,
  contextTokens: 0,
  inputTokens: 0,
  outputTokens: 0,
  draftTokens: 0,
  acceptedDraftTokens: 0,
  timestampUs: 0,
  lastStepMs: 0,
  totalStepMs: 0,
  cpuBytes: 0,
  gpuBytes: 0,
});

/** The order of the fields in a float array. */
const FIELDS = Object.keys(ZERO_STATS) as readonly (keyof EngineStats)[];
export const NUM_STATS: number = FIELDS.length;

export function writeStats(stats: EngineStats, into: Float64Array): void {
  for (let i = 0; i < FIELDS.length; i++) into[i] = stats[FIELDS[i] ?? "active"];
}

export function readStats(values: Float64Array): EngineStats {
  const stats: EngineStats = { ...ZERO_STATS };
  for (let i = 0; i < FIELDS.length; i++) stats[FIELDS[i] ?? "active"] = values[i] ?? 0;
  return stats;
}

/** Statistics of an engine that has run no step yet. */
export function firstStats(
  runner: Pick<StepRunner, "numBlocks" | "blockSize" | "gpuBytes">,
  maxRequests: number,
): EngineStats {
  return {
    ...ZERO_STATS,
    maxRequests,
    kvBlocksMax: runner.numBlocks,
    tokensPerBlock: runner.blockSize,
    cpuBytes: process.memoryUsage.rss(),
    gpuBytes: runner.gpuBytes ?? 0,
  };
}

/** Brings what can be counted at any time up to now. `numPreparing`: requests that the planner does not know yet. */
export function countRequests(stats: EngineStats, planner: StepPlanner, numPreparing: number): void {
  stats.active = planner.numRunning + planner.numWaiting + numPreparing;
  stats.waiting = Math.max(0, stats.active - stats.scheduled);
  stats.paused = planner.numPaused;
  stats.preemptions = planner.numPreemptions;
  stats.kvBlocksFree = planner.numFreeBlocks;
  stats.kvBlocksUsed = stats.kvBlocksMax - stats.kvBlocksFree;
  stats.kvBlocksReused = planner.numReusedBlocks;
  stats.kvBlocksNew = planner.numNewBlocks;
  stats.kvBlocksOffloaded = planner.numOffloadedBlocks;
  stats.kvBlocksOnboarded = planner.numOnboardedBlocks;
}

/** Asking for the resident memory costs some microseconds: not worth it every step. */
const STEPS_PER_MEMORY_LOOK = 64;

type StepCounts = Pick<StepPlan, "sequences" | "numContextSequences" | "numContextTokens">;

/** A step is about to run. */
export function countStep(stats: EngineStats, { sequences, numContextSequences, numContextTokens }: StepCounts): void {
  stats.iteration += 1;
  stats.scheduled = sequences.length;
  stats.context = numContextSequences;
  stats.generating = sequences.length - numContextSequences;
  stats.contextTokens = numContextTokens;
  stats.timestampUs = Date.now() * 1000;
  if (stats.iteration % STEPS_PER_MEMORY_LOOK === 0) stats.cpuBytes = process.memoryUsage.rss();
}

/** Nothing is left to do. */
export function countIdle(stats: EngineStats): void {
  stats.scheduled = 0;
  stats.context = 0;
  stats.generating = 0;
  stats.contextTokens = 0;
  stats.cpuBytes = process.memoryUsage.rss();
}

/** A request has ended. */
export function countTokens(stats: EngineStats, usage: Usage): void {
  stats.inputTokens += usage.promptTokens;
  stats.outputTokens += usage.outputTokens;
  stats.draftTokens += usage.draftTokens;
  stats.acceptedDraftTokens += usage.acceptedDraftTokens;
}
