/** A model is reloaded again and again, 200 requests a second on it and on the one beside it: none may fail. */
import assert from "node:assert/strict";
import { createRandom } from "../support/random.ts";
import { reloadUnderLoad } from "../support/reload-load.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const REQUESTS_PER_SECOND = 200;
const MAX_RELOADS = 1000;
const PAUSE_MS = 100;

export const reloadsSoak: Soak = { name: "reloads", run };

/** Ends early after as many reloads as were promised. */
async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const { failures, ...result } = await reloadUnderLoad({
    random: createRandom(seed),
    requestsPerSecond: REQUESTS_PER_SECOND,
    pauseMs: PAUSE_MS,
    goesOn: (reloads) => reloads < MAX_RELOADS && performance.now() < deadlineMs,
  });
  assert.deepEqual(failures.slice(0, 10), [], `${failures.length} of ${result.requests} requests failed`);
  assert.equal(result.steadyAnswered, result.steadySent, "the model beside it was touched");
  return { ...result, failed: failures.length };
}
