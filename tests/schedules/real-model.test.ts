/**
 * Random loads over nereid-tiny: equal to the bit in the deterministic mode, and close to it in the other. As many as one likes:
 * `npm run soak -- real-loads`.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createDecoderRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import { testSize } from "../support/long-tests.ts";
import { DETERMINISTIC, expectClose, expectEqualBits, MARGINS, SHAPE } from "./real-loads.ts";

/** The seventh load is short of blocks. */
const FIRST = testSize(7, 1);
const LAST = 8;

for (const types of DETERMINISTIC) {
  const name = `${types.weightType} weights and ${types.cacheType ?? "f32"} cache`;
  test(`a deterministic engine gives equal bits under any load, with ${name}`, async (t) => {
    const runner = await createDecoderRunner({ ...SHAPE, ...types, isDeterministic: true });
    t.after(() => runner.close());
    const totals = { outputs: 0, acceptedDraftTokens: 0, preemptions: 0 };
    for (let seed = FIRST; seed <= LAST; seed++) {
      const { outputs, acceptedDraftTokens, preemptions } = await expectEqualBits(runner, seed);
      totals.outputs += outputs;
      totals.acceptedDraftTokens += acceptedDraftTokens;
      totals.preemptions += preemptions;
    }
    t.diagnostic(JSON.stringify(totals));
    assert.ok(totals.acceptedDraftTokens > 0 && totals.preemptions > 0, JSON.stringify(totals));
  });
}

for (const [weightType, bound] of MARGINS) {
  test(`an engine that is not deterministic differs only where two tokens are within ${bound}, with ${weightType} weights`, async (t) => {
    const runner = await createDecoderRunner({ ...SHAPE, weightType });
    t.after(() => runner.close());
    const margins: number[] = [];
    let numTokens = 0;
    for (let seed = 100 + FIRST; seed <= 100 + LAST; seed++) {
      const figures = await expectClose(runner, seed, bound);
      margins.push(...figures.margins);
      numTokens += figures.numTokens;
    }
    t.diagnostic(`${margins.length} outputs differ, of ${numTokens} tokens; margins: ${margins.join(", ") || "none"}`);
    assert.ok(numTokens > (LAST - FIRST + 1) * 20);
  });
}
