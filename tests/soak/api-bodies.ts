/** Broken bodies for every route of the text APIs, through the route tables: below 500, bounded in time, the heap flat. */
import assert from "node:assert/strict";
import process from "node:process";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { FuzzTarget, fuzzApis } from "../support/fuzz-apis.ts";
import { createRandom } from "../support/random.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const PER_ROUND = 10_000;
const MAX_BODIES = 1_000_000;
/** One body, on a machine that does other work. */
const MAX_BODY_MS = 10_000;
const MAX_GROWTH_BYTES = 32 * 1024 * 1024;

export const apiBodiesSoak: Soak = { name: "api-bodies", run };

async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const random = createRandom(seed);
  const target = new FuzzTarget();
  let [bodies, whole, accepted, slowestMs, heapBefore] = [0, 0, 0, 0, 0];
  while (bodies < MAX_BODIES && performance.now() < deadlineMs) {
    const counts = await fuzzApis(target, random, PER_ROUND);
    bodies += counts.bodies;
    whole += counts.whole;
    accepted += counts.accepted;
    slowestMs = Math.max(slowestMs, counts.slowestMs);
    assert.ok(slowestMs < MAX_BODY_MS, `a body took ${slowestMs} ms`);
    // The first round compiles and fills caches.
    if (heapBefore === 0) heapBefore = heapBytes();
  }
  const heapGrowthBytes = heapBytes() - heapBefore;
  assert.ok(heapGrowthBytes < MAX_GROWTH_BYTES, `the heap grew by ${heapGrowthBytes} bytes`);
  return { bodies, whole, accepted, slowestMs, heapGrowthBytes };
}

function heapBytes(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");
