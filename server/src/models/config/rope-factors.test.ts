import assert from "node:assert/strict";
import { test } from "node:test";
import { ropeFactors } from "./rope-factors.ts";

const ROPE = { theta: 1e4, numDims: 8 };

test("ropeFactors() leaves frequencies alone without scaling", () => {
  assert.deepEqual(ropeFactors({ ...ROPE, scaling: { kind: "none" } }, 100), { divisors: undefined, magnitude: 1 });
});

test("ropeFactors() divides every frequency alike when linear", () => {
  const { divisors } = ropeFactors({ ...ROPE, scaling: { kind: "linear", factor: 4 } }, 100);
  assert.deepEqual(divisors, Float32Array.of(4, 4, 4, 4));
});

test("ropeFactors() of llama3 keeps short waves, stretches long ones and blends between", () => {
  const scaling = {
    kind: "llama3",
    factor: 8,
    lowFrequencyFactor: 1,
    highFrequencyFactor: 4,
    originalMaxPositions: 8192,
  } as const;
  const { divisors = new Float32Array() } = ropeFactors({ theta: 500_000, numDims: 128, scaling }, 131_072);
  assert.equal(divisors.length, 64);
  assert.deepEqual([divisors[0], divisors[28], divisors[63]], [1, 1, 8]);
  // Frequency 30 turns 2.7789 times in the original context: (2.7789 - 1) / 3 of it is kept.
  const turns = 8192 / (2 * Math.PI * 500_000 ** (60 / 128));
  const kept = (turns - 1) / 3;
  assert.ok(Math.abs((divisors[30] ?? 0) - 1 / ((1 - kept) / 8 + kept)) < 1e-6);
});

test("ropeFactors() of yarn ramps from the frequency that turns often to the one that turns once", () => {
  const scaling = {
    kind: "yarn",
    factor: 4,
    betaFast: 32,
    betaSlow: 1,
    originalMaxPositions: 32_768,
    isTruncated: true,
    magnitude: 1.1386,
  } as const;
  const { divisors = new Float32Array(), magnitude } = ropeFactors({ theta: 1e6, numDims: 128, scaling }, 131_072);
  // 128 ln(32768 / 2 pi n) / (2 ln 10^6) is 23.6 for 32 turns and 39.7 for one.
  assert.deepEqual([divisors[23], divisors[40], divisors[63], magnitude], [1, 4, 4, 1.1386]);
  const kept = 1 - (30 - 23) / (40 - 23);
  assert.ok(Math.abs((divisors[30] ?? 0) - 1 / ((1 - kept) / 4 + kept)) < 1e-6);
});

test("ropeFactors() of longrope chooses by the longest sequence that is served", () => {
  const scaling = {
    kind: "longrope",
    shortFactors: [1, 1, 1, 2],
    longFactors: [1, 2, 4, 8],
    originalMaxPositions: 4096,
    magnitude: 1.19,
  } as const;
  const divisorsAt = (served: number): unknown => ropeFactors({ ...ROPE, scaling }, served).divisors;
  assert.deepEqual(divisorsAt(4096), Float32Array.of(1, 1, 1, 2));
  assert.deepEqual(divisorsAt(4097), Float32Array.of(1, 2, 4, 8));
});
