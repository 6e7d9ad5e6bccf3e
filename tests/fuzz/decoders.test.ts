/** A sample of what `npm run soak -- decoders` does: each reader of untrusted bytes with broken inputs, the same each time. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { testSize } from "../support/long-tests.ts";
import { drawCase } from "./fuzz-target.ts";
import { runCases } from "./run-cases.ts";
import { FUZZ_TARGETS, fuzzTarget } from "./targets.ts";

const SEED = 19;
const NUM_CASES = testSize(400, 20_000);

for (const target of FUZZ_TARGETS) {
  test(`${target.name} reads its seeds, and refuses ${NUM_CASES} broken inputs in its own words or reads them`, async () => {
    for (const seed of target.seeds) await target.read(Buffer.from(seed));
    const { refused } = await runCases(target, { seed: SEED, first: 0, count: NUM_CASES }, false);
    // Mutations that all fail, or that change nothing, would find nothing.
    assert.ok(refused > 0 && refused < NUM_CASES, `${refused} of ${NUM_CASES} inputs refused`);
  });
}

test("runCases() names target, seed, number and input of an error that the reader does not have", async () => {
  const target = { ...fuzzTarget("gguf"), read: () => assert.equal(typeof undefined, "string") };
  await assert.rejects(
    runCases(target, { seed: 3, first: 5, count: 1 }, false),
    /^FuzzFault: gguf, seed 3, case 5: .*\n[\s\S]*base64 of the input: /,
  );
});

test("drawCase() gives the same input for the same number", () => {
  const target = fuzzTarget("tar");
  assert.deepEqual(drawCase(target, 1, 7), drawCase(target, 1, 7));
  assert.notDeepEqual(drawCase(target, 1, 7), drawCase(target, 2, 7));
});
