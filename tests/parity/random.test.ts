/**
 * Random configurations of each family beside what transformers computed (record_random.py): a sample here, all of them in
 * `npm run soak -- random-configs`.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { testSize } from "../support/long-tests.ts";
import { createRandom } from "../support/random.ts";
import { checkConfig, families, isExpected } from "./random/check-config.ts";
import { readFamily } from "./random/generated-model.ts";

const SEED = 20_261_124;
/** Configurations that are drawn from each family. */
const SAMPLE = testSize(6, 60);

test("each family has 200 random configurations", () => {
  assert.ok(families().length >= 10);
  for (const family of families()) assert.ok(readFamily(family).length >= 200, family);
});

for (const family of families()) {
  test(`random configurations of ${family} give the tokens of transformers, or are refused by a field's name`, async () => {
    const random = createRandom(SEED);
    const all = readFamily(family);
    for (let i = 0; i < SAMPLE; i += 1) {
      const index = random.below(all.length);
      const recorded = all[index];
      assert.ok(recorded !== undefined);
      const outcome = await checkConfig(recorded);
      assert.ok(isExpected(outcome), `configuration ${index}: ${outcome}`);
    }
  });
}
