import assert from "node:assert/strict";
import { test } from "node:test";
import { type ServiceTier, servedTier, textRequestOf } from "./generation-fields.ts";

const TIERS: readonly (readonly [tier: ServiceTier | undefined, level: number])[] = [
  ["priority", 1],
  ["fast", 1],
  ["flex", 3],
  ["auto", 0],
  ["default", 0],
  [undefined, 0],
];

for (const [tier, level] of TIERS) {
  test(`service_tier ${tier} is level ${level} of the queue`, () => {
    assert.equal(textRequestOf({ model: "m", service_tier: tier }).priority, level);
  });
}

test("the answer names the tier that served it", () => {
  assert.deepEqual((["auto", "fast", "flex"] as const).map(servedTier), ["default", "priority", "flex"]);
});

test("vLLM's priority goes before a tier, and prompt_cache_key is the salt", () => {
  assert.equal(textRequestOf({ model: "m", service_tier: "flex", priority: -5 }).priority, 1);
  assert.equal(textRequestOf({ model: "m", prompt_cache_key: "a" }).cacheSalt, "a");
});
