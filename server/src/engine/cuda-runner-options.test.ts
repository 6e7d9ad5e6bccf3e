import assert from "node:assert/strict";
import { test } from "node:test";
import { cudaRunnerOptions } from "./cuda-runner-options.ts";
import { DEFAULT_ENGINE_CONFIG } from "./engine-config.ts";
import type { EngineSpec } from "./engine-spec.ts";

const SPEC: EngineSpec = { modelDir: "/m", engine: DEFAULT_ENGINE_CONFIG, kvCacheTokens: 0, numThreads: 0 };
const GPU = { ordinal: 1, matrices: undefined };
const NO_CACHE = { type: undefined, bytes: 0, freeFraction: undefined, hostBytes: 0, attentionWindows: [] };
const TWO = { ...GPU, ranks: { ordinals: [0, 1], numTensorRanks: 2, numStages: 1, network: undefined } };
const ignore = (): void => undefined;

test("cudaRunnerOptions() leaves the size of the cache to what is free unless it is given", () => {
  assert.equal(cudaRunnerOptions(SPEC, GPU, ignore).numBlocks, 0);
  assert.equal(cudaRunnerOptions({ ...SPEC, kvCacheTokens: 1000 }, GPU, ignore).numBlocks, 31);
});

test("cudaRunnerOptions() computes in bf16 unless f32 is asked for", () => {
  assert.equal(cudaRunnerOptions(SPEC, GPU, ignore).type, "bf16");
  assert.equal(cudaRunnerOptions({ ...SPEC, weightType: "f32" }, GPU, ignore).type, "f32");
  assert.equal(cudaRunnerOptions(SPEC, GPU, ignore).matrixType, undefined);
});

test("cudaRunnerOptions() keeps matrices as the files have them unless a type is asked for", () => {
  assert.equal(cudaRunnerOptions(SPEC, { ordinal: 0, matrices: "fp8" }, ignore).matrixType, "e4m3");
  assert.equal(cudaRunnerOptions(SPEC, { ordinal: 0, matrices: "int4" }, ignore).matrixType, "int4");
  assert.equal(cudaRunnerOptions({ ...SPEC, weightType: "bf16" }, GPU, ignore).matrixType, "bf16");
});

test("cudaRunnerOptions() keeps keys and values as 8-bit floats when asked to", () => {
  const kvCache = { ...NO_CACHE, type: "q8_0", isFp8: true } as const;
  assert.equal(cudaRunnerOptions({ ...SPEC, kvCache }, GPU, ignore).cacheType, "e4m3");
  assert.equal(cudaRunnerOptions(SPEC, GPU, ignore).cacheType, undefined);
});

test("cudaRunnerOptions() makes room for whole prompts where these are not cut", () => {
  const engine = { ...DEFAULT_ENGINE_CONFIG, chunkedPrefill: false };
  assert.equal(cudaRunnerOptions({ ...SPEC, engine }, GPU, ignore).maxTokens, 16_384);
});

test("cudaRunnerOptions() hands on the deterministic mode and narrower windows", () => {
  const kvCache = { ...NO_CACHE, attentionWindows: [64, 32] };
  const options = cudaRunnerOptions({ ...SPEC, kvCache, isDeterministic: true }, GPU, ignore);
  assert.deepEqual([options.isDeterministic, options.attentionWindows], [true, [64, 32]]);
});

for (const [what, changes] of [
  ["weight_type q8_0", { weightType: "q8_0" }],
  ["a cache of f16", { kvCache: { ...NO_CACHE, type: "f16" } }],
  ["a cache of q8_0", { kvCache: { ...NO_CACHE, type: "q8_0" } }],
  ["kv_cache_host_memory_bytes", { kvCache: { ...NO_CACHE, hostBytes: 1 } }],
  ["deterministic", { isDeterministic: true, gpu: TWO }],
  ["speculative_model", { draftModelDir: "/d" }],
] as const) {
  test(`cudaRunnerOptions() refuses ${what}`, () => {
    assert.throws(() => cudaRunnerOptions({ ...SPEC, ...changes }, GPU, ignore), new RegExp(`on a GPU ${what} is not`));
  });
}
