/** Ends engine hosts and threads of TypeScript models under load, 1,000 times each or as often as the time allows. */
import assert from "node:assert/strict";
import { runEngineFaults } from "../support/engine-faults.ts";
import type { FaultTally } from "../support/process-faults.ts";
import { createRandom, type Random } from "../support/random.ts";
import { runTypescriptFaults } from "../support/typescript-faults.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const NUM_POINTS = 1000;
/** More than a load under the same requests that a successor may take, in the median. */
const MAX_MORE_MS = 300;

type RunFaults = (random: Random, isOver: (points: number) => boolean) => Promise<FaultTally>;

export const engineFaultsSoak: Soak = { name: "engine-faults", run: (options) => run(options, runEngineFaults) };
export const typescriptFaultsSoak: Soak = {
  name: "typescript-faults",
  run: (options) => run(options, runTypescriptFaults),
};

async function run({ seed, deadlineMs }: SoakOptions, runFaults: RunFaults): Promise<SoakResult> {
  const isOver = (points: number): boolean => points >= NUM_POINTS || performance.now() >= deadlineMs;
  const { recoveryMs, ...counts } = await runFaults(createRandom(seed), isOver);
  for (const [kind, { median }] of Object.entries(recoveryMs)) {
    const text = `${kind}: recovery in ${median} ms, a load in ${counts.loadMs} ms`;
    assert.ok(median <= counts.loadMs + MAX_MORE_MS, text);
  }
  const byKind = Object.entries(recoveryMs).flatMap(([kind, { slowest, median }]) => [
    [`${kind} slowest recovery ms`, slowest],
    [`${kind} median recovery ms`, median],
  ]);
  return { ...counts, ...Object.fromEntries(byKind) };
}
