import assert from "node:assert/strict";
import { test } from "node:test";
import { placeRegions } from "../../device/cuda/regions.ts";
import type { DecoderConfig } from "../config/decoder-config.ts";
import { planActivations } from "./memory.ts";

const CONFIG = {
  hiddenSize: 64,
  numLayers: 2,
  numHeads: 4,
  numKvHeads: 2,
  headDim: 16,
  vocabSize: 96,
  mlp: { isGated: true, activation: "silu", intermediateSize: 128 },
} as unknown as DecoderConfig;
const BOUNDS = { maxTokens: 20, maxSequences: 4, maxLogitRows: 5 };

test("planActivations() has room for the rows that GEMMs round up to", () => {
  const { offsets } = planActivations(CONFIG, "bf16", BOUNDS, 0);
  // 20 rows are computed as 24, 5 rows of logits as 16 at the least.
  assert.ok(offsets.normed - offsets.residual >= 24 * 64 * 2);
  assert.ok(offsets.activated - offsets.gateUp >= 24 * 2 * 128 * 2);
  assert.ok(offsets.chosen - offsets.logits >= 16 * 96 * 4);
});

test("planActivations() keeps its parts apart and in one piece", () => {
  const { offsets, numBytes } = planActivations(CONFIG, "f32", BOUNDS, 1000);
  const starts = Object.values(offsets);
  assert.equal(new Set(starts).size, starts.length);
  assert.ok(starts.every((start) => start % 256 === 0 && start < numBytes));
  assert.ok(offsets.attentionScratch + 1000 <= numBytes);
});

test("planActivations() takes twice the memory for floats of twice the size", () => {
  const [narrow, wide] = (["bf16", "f32"] as const).map((type) => planActivations(CONFIG, type, BOUNDS, 0).offsets);
  assert.equal(wide?.codes, 2 * (narrow?.codes ?? 0));
});

test("placeRegions() adds where the memory begins", () => {
  const plan = planActivations(CONFIG, "bf16", BOUNDS, 0);
  assert.equal(placeRegions(plan, 4096n).qkv, 4096n + BigInt(plan.offsets.qkv));
});
