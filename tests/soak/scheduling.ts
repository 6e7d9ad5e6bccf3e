/** Random schedules of batchers, sequences, ensembles, cache and rate limiter: a million of them where a test has thousands. */
import { execFile } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Figures } from "../scheduling/world.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const NUM_SCHEDULES = 1_000_000;
/** Seeds of a run follow each other; runs with other seeds see other schedules. */
const SEEDS_PER_RUN = 1_000_000;
const NUM_PROCESSES = 4;
const PROGRAM = fileURLToPath(new URL("scheduling-share.ts", import.meta.url));
/** Short lives of many objects: room for them saves collections. */
const NODE_FLAGS = ["--max-semi-space-size=64"];

export const schedulingSoak: Soak = { name: "scheduling", run };

async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const count = NUM_SCHEDULES / NUM_PROCESSES;
  const remainingMs = Math.round(deadlineMs - performance.now());
  const shares = Array.from({ length: NUM_PROCESSES }, (_, i) => [
    seed * SEEDS_PER_RUN + i * count,
    count,
    remainingMs,
  ]);
  const figures = await Promise.all(shares.map(runShare));
  return { ...figures.reduce(sum) };
}

async function runShare(share: readonly number[]): Promise<Figures> {
  const args = [...NODE_FLAGS, ...process.execArgv, PROGRAM, ...share.map(String)];
  const { stdout } = await promisify(execFile)(process.execPath, args); // rejects with what it wrote to stderr
  return JSON.parse(stdout);
}

function sum(a: Figures, b: Figures): Figures {
  return {
    schedules: a.schedules + b.schedules,
    requests: a.requests + b.requests,
    refused: a.refused + b.refused,
    cancelled: a.cancelled + b.cancelled,
    timedOut: a.timedOut + b.timedOut,
    failed: a.failed + b.failed,
    answered: a.answered + b.answered,
    fromCache: a.fromCache + b.fromCache,
    batches: a.batches + b.batches,
    reloads: a.reloads + b.reloads,
    longestWaitMs: Math.max(a.longestWaitMs, b.longestWaitMs),
  };
}
