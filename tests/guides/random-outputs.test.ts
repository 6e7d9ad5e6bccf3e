/** Two outputs of each of 20 random schemas; `npm run soak -- guided-outputs` makes as many as one likes, of 50. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { addOutputs, RandomOutputs } from "./random-outputs.ts";

const NUM_SCHEMAS = 20;

test("outputs at random under a schema follow it, and drafts that are taken back leave no trace", async (t) => {
  const outputs = await RandomOutputs.create(1, NUM_SCHEMAS);
  t.after(() => outputs.close());
  const { finished, cut, takenBack } = addOutputs(await outputs.run(1), await outputs.run(2));
  assert.equal(finished + cut, 2 * NUM_SCHEMAS);
  assert.ok(finished >= NUM_SCHEMAS, `${finished} finished`);
  assert.ok(takenBack > 0);
});
