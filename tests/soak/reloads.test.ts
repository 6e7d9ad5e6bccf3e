import assert from "node:assert/strict";
import { test } from "node:test";
import { createRandom } from "../support/random.ts";
import { reloadUnderLoad } from "../support/reload-load.ts";

const SEED = 20;
const RELOADS = 60;

test(`${RELOADS} reloads under 200 requests a second fail none of them and touch no other model`, async () => {
  const result = await reloadUnderLoad({
    random: createRandom(SEED),
    requestsPerSecond: 200,
    pauseMs: 50,
    goesOn: (reloads) => reloads < RELOADS,
  });
  assert.deepEqual(result.failures.slice(0, 5), []);
  assert.equal(result.reloads, RELOADS);
  assert.ok(result.refusedLoads > 0, "the seed has broken models too");
  assert.equal(result.steadyAnswered, result.steadySent);
});
