import assert from "node:assert/strict";
import { test } from "node:test";
import { ropeFrequencyFactors } from "./rope-factors.ts";

test("ropeFrequencyFactors() leaves frequencies alone without scaling", () => {
  assert.equal(ropeFrequencyFactors({ headDim: 8, ropeTheta: 1e4, ropeScaling: { kind: "none" } }), undefined);
});

test("ropeFrequencyFactors() divides every frequency alike when linear", () => {
  const factors = ropeFrequencyFactors({ headDim: 8, ropeTheta: 1e4, ropeScaling: { kind: "linear", factor: 4 } });
  assert.deepEqual(factors, Float32Array.of(4, 4, 4, 4));
});

test("ropeFrequencyFactors() of llama3 keeps short waves, stretches long ones and blends between", () => {
  const ropeScaling = {
    kind: "llama3",
    factor: 8,
    lowFrequencyFactor: 1,
    highFrequencyFactor: 4,
    originalMaxPositions: 8192,
  } as const;
  const factors = ropeFrequencyFactors({ headDim: 128, ropeTheta: 500_000, ropeScaling }) ?? new Float32Array();
  assert.equal(factors.length, 64);
  assert.deepEqual([factors[0], factors[28], factors[63]], [1, 1, 8]);
  // Frequency 30 turns 2.7789 times in the original context: (2.7789 - 1) / 3 of it is kept.
  const turns = 8192 / (2 * Math.PI * 500_000 ** (60 / 128));
  const kept = (turns - 1) / 3;
  assert.ok(Math.abs((factors[30] ?? 0) - 1 / ((1 - kept) / 8 + kept)) < 1e-6);
});
