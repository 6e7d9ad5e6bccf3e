/** Random schedules of batchers, sequences, ensembles, cache and rate limiter: a million of them where a test has thousands. */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { Figures } from "../scheduling/world.ts";
import type { Share } from "./scheduling-worker.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const NUM_SCHEDULES = 1_000_000;
/** Seeds of a run follow each other; runs with other seeds see other schedules. */
const SEEDS_PER_RUN = 1_000_000;
const NUM_THREADS = 2;

export const schedulingSoak: Soak = { name: "scheduling", run };

async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const count = NUM_SCHEDULES / NUM_THREADS;
  const remainingMs = deadlineMs - performance.now();
  const shares = Array.from({ length: NUM_THREADS }, (_, i): Share => {
    return { firstSeed: seed * SEEDS_PER_RUN + i * count, count, remainingMs };
  });
  const figures = await Promise.all(shares.map(runShare));
  return figures.reduce(sum);
}

async function runShare(workerData: Share): Promise<Figures> {
  const worker = new Worker(new URL("scheduling-worker.ts", import.meta.url), { workerData });
  const [figures] = await once(worker, "message"); // rejects with what the worker throws
  return figures;
}

function sum(a: Figures, b: Figures): Figures {
  const names = Object.keys(a) as (keyof Figures)[];
  const add = (name: keyof Figures): number =>
    name === "longestWaitMs" ? Math.max(a[name], b[name]) : a[name] + b[name];
  return Object.fromEntries(names.map((name) => [name, add(name)])) as unknown as Figures;
}
