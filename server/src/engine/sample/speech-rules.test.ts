import assert from "node:assert/strict";
import { test } from "node:test";
import { type SpeechRules, speechProcessor } from "./speech-rules.ts";

/** Texts 0 to 4, end 5, start 6, languages 7 and 8, no timestamps 9, timestamps 10 to 15. */
const RULES: SpeechRules = {
  startId: 6,
  endId: 5,
  noTimestampsId: 9,
  languageIds: [7, 8],
  suppressed: [3],
  suppressedFirst: [1, 5],
  maxFirstTimestamp: 2,
};

/** Ids that may come behind the output, all of which are equally likely before; `loud` ones are likelier. */
function allowed(prompt: readonly number[], output: readonly number[], loud: readonly number[] = []): number[] {
  const logits = new Float32Array(16);
  for (const id of loud) logits[id] = 50;
  speechProcessor(RULES)(logits, Int32Array.from([...prompt, ...output]), prompt.length);
  return [...logits.keys()].filter((id) => logits[id] !== Number.NEGATIVE_INFINITY);
}

const WITHOUT_TIMES = [6, 7, 9];
const WITH_TIMES = [6, 7];

test("speechProcessor() takes suppressed tokens off, and some as the first alone", () => {
  assert.deepEqual(allowed(WITHOUT_TIMES, []), [0, 2, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
  assert.deepEqual(allowed(WITHOUT_TIMES, [0]), [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
});

test("speechProcessor() leaves the languages behind a bare start, and no order of times behind that", () => {
  assert.deepEqual(allowed([6], []), [7, 8]);
  assert.equal(allowed([6], [7]).length, 15);
});

test("speechProcessor() begins with a timestamp that is not too late", () => {
  assert.deepEqual(allowed(WITH_TIMES, []), [10, 11, 12]);
});

test("speechProcessor() lets timestamps come in pairs, and never fall", () => {
  // Behind the first timestamp comes text.
  assert.deepEqual(allowed(WITH_TIMES, [11], [0]), [0, 1, 2, 4, 5, 6, 7, 8]);
  // Behind text, a timestamp that is later, where text is likelier than all of them.
  assert.deepEqual(allowed(WITH_TIMES, [11, 0], [0]), [0, 1, 2, 4, 5, 6, 7, 8, 12, 13, 14, 15]);
  // Behind text and a timestamp its pair, which may be the same, or the end.
  assert.deepEqual(allowed(WITH_TIMES, [11, 0, 13], [5]), [5, 6, 7, 8, 13, 14, 15]);
});

test("speechProcessor() takes a timestamp where all together are likelier than any other token", () => {
  assert.deepEqual(allowed(WITH_TIMES, [10, 0]), [11, 12, 13, 14, 15]);
});
