import assert from "node:assert/strict";
import { test } from "node:test";
import { nearestName } from "./suggest.ts";

const NAMES: readonly string[] = ["max_batch_size", "input", "output", "backend"];

for (const [word, expected] of [
  ["max_batch_sise", "max_batch_size"],
  ["maxbatchsize", "max_batch_size"],
  ["BACKEND", "backend"],
  ["inputs", "input"],
  ["colour", undefined],
  ["x".repeat(100_000), undefined],
] as const) {
  test(`nearestName() answers ${expected} for '${word.slice(0, 20)}'`, () => {
    assert.equal(nearestName(word, NAMES), expected);
  });
}
