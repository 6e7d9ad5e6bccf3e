/** Random loads over nereid-tiny: equal to the bit in the deterministic mode, and close to it in the other. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { createDecoderRunner, type DecoderRunnerOptions } from "../../server/src/engine/decoder-cpu-runner.ts";
import { createLoad, outputsAlone, outputsTogether, type RealOutput, withDrafts } from "./real-model.ts";

const MODEL = fileURLToPath(new URL("../../examples/nereid-tiny/language_model/", import.meta.url));
const SHAPE = { modelDir: MODEL, blockSize: 8, numBlocks: 64, numThreads: 1, maxPositions: 128 };
const LOADS_PER_TYPE = 20;

type Types = Pick<DecoderRunnerOptions, "weightType" | "cacheType">;

const DETERMINISTIC: readonly Types[] = [
  { weightType: "f32" },
  { weightType: "bf16" },
  { weightType: "q8_0", cacheType: "f16" },
];

for (const types of DETERMINISTIC) {
  const name = `${types.weightType} weights and ${types.cacheType ?? "f32"} cache`;
  test(`a deterministic engine gives equal bits under any load, with ${name}`, async (t) => {
    const runner = await createDecoderRunner({ ...SHAPE, ...types, isDeterministic: true });
    t.after(() => runner.close());
    const totals = { outputs: 0, acceptedDraftTokens: 0, preemptions: 0 };
    for (let seed = 1; seed <= LOADS_PER_TYPE; seed++) {
      const load = createLoad(seed, runner.vocabSize, false);
      const alone = await outputsAlone(runner, load);
      const { outputs, acceptedDraftTokens, preemptions } = await outputsTogether(runner, withDrafts(load, alone));
      assert.deepEqual(outputs, alone, `the load of seed ${seed}`);
      totals.outputs += outputs.length;
      totals.acceptedDraftTokens += acceptedDraftTokens;
      totals.preemptions += preemptions;
    }
    t.diagnostic(JSON.stringify(totals));
    assert.ok(totals.acceptedDraftTokens > 0 && totals.preemptions > 0, JSON.stringify(totals));
  });
}

/** Two tokens this close may change places when sums run in another order. */
const MARGINS: readonly (readonly ["f32" | "bf16", number])[] = [
  ["f32", 1e-3],
  ["bf16", 3e-2],
];

for (const [weightType, bound] of MARGINS) {
  test(`an engine that is not deterministic differs only where two tokens are within ${bound}, with ${weightType} weights`, async (t) => {
    const runner = await createDecoderRunner({ ...SHAPE, weightType });
    t.after(() => runner.close());
    const margins: number[] = [];
    let numTokens = 0;
    for (let seed = 101; seed <= 100 + LOADS_PER_TYPE; seed++) {
      const load = createLoad(seed, runner.vocabSize, true);
      const alone = await outputsAlone(runner, load);
      const { outputs } = await outputsTogether(runner, withDrafts(load, alone));
      for (const [i, output] of outputs.entries()) {
        numTokens += output.tokens.length;
        const margin = marginOfDifference(alone[i] ?? output, output);
        if (margin !== undefined) margins.push(margin);
      }
    }
    t.diagnostic(`${margins.length} outputs differ, of ${numTokens} tokens; margins: ${margins.join(", ") || "none"}`);
    assert.ok(margins.every((margin) => margin < bound));
    assert.ok(numTokens > LOADS_PER_TYPE * 20);
  });
}

/** How close the two best tokens were where the outputs first differ; undefined when they do not. */
function marginOfDifference(expected: RealOutput, actual: RealOutput): number | undefined {
  const at = expected.tokens.findIndex((token, i) => token !== actual.tokens[i]);
  if (at >= 0) return expected.margins[at] ?? Number.POSITIVE_INFINITY;
  return expected.tokens.length === actual.tokens.length ? undefined : Number.POSITIVE_INFINITY;
}
