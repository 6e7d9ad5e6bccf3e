import assert from "node:assert/strict";
import { test } from "node:test";
import { allowedWidths, type OutputRule, toAnswer } from "./class-outputs.ts";

const CLASSIFIER = { isClassifier: true, predictsScores: false, threshold: 0.5, numOutputs: 1, width: 1 };
const CASES: readonly (readonly [string, readonly number[], Partial<OutputRule>, readonly number[]])[] = [
  ["class 1 above the threshold", [0.5, 0.51, 0.2], {}, [0, 1, 0]],
  ["a threshold of FP32", [Math.fround(0.3), 0.31], { threshold: 0.3 }, [0, 1]],
  ["the first of the greatest scores", [-3, -1, -1, 2, 2, 0], { numOutputs: 3 }, [1, 0]],
  ["scores of class 1", [0.25], { predictsScores: true }, [0.25]],
  ["scores of both classes", [0.25], { predictsScores: true, width: 2 }, [0.75, 0.25]],
  ["scores of all classes", [0.5, 0.25, 0.25], { predictsScores: true, numOutputs: 3, width: 3 }, [0.5, 0.25, 0.25]],
  ["values of a regression", [7.5], { isClassifier: false, predictsScores: true, width: 1 }, [7.5]],
];
for (const [what, values, rule, expected] of CASES) {
  test(`toAnswer() gives ${what}`, () => {
    assert.deepEqual([...toAnswer(Float32Array.from(values), { ...CLASSIFIER, ...rule })], [...expected]);
  });
}

test("allowedWidths() has one or two scores where there are two classes", () => {
  assert.deepEqual(allowedWidths({ ...CLASSIFIER, predictsScores: true }), [1, 2]);
  assert.deepEqual(allowedWidths({ ...CLASSIFIER, numOutputs: 5 }), [1]);
  assert.deepEqual(allowedWidths({ ...CLASSIFIER, isClassifier: false, numOutputs: 5 }), [5]);
});
