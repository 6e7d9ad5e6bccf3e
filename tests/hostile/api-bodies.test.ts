/** Broken bodies for every route of the text APIs; `npm run soak -- api-bodies` sends a million. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { BODY_CASES } from "../support/api-bodies.ts";
import { FuzzTarget, fuzzApis } from "../support/fuzz-apis.ts";
import { testSize } from "../support/long-tests.ts";
import { createRandom } from "../support/random.ts";

const BODIES = testSize(1000, 4000);

test("every route reads the body that the fuzzer breaks", async () => {
  const target = new FuzzTarget();
  for (const { path, models, body, isRefused } of BODY_CASES) {
    for (const model of models) {
      const bytes = Buffer.from(JSON.stringify({ model, ...body }));
      const { status, text } = await target.answer({ path, bytes, headers: {}, isWhole: isRefused !== true });
      assert.equal(status, isRefused ? 400 : 200, `${path}, ${model}: ${text}`);
    }
  }
});

test(`${BODIES} broken bodies are read or refused in the form of their API`, async () => {
  const { accepted, whole } = await fuzzApis(new FuzzTarget(), createRandom(18), BODIES);
  assert.ok(whole > BODIES / 20, `${whole} were sent as they are`);
  assert.ok(accepted > whole && accepted < BODIES, `${accepted} were accepted`);
});
