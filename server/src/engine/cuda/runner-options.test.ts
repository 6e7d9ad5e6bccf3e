import assert from "node:assert/strict";
import { test } from "node:test";
import { DEFAULT_ENGINE_CONFIG } from "../engine-config.ts";
import type { EngineSpec } from "../engine-spec.ts";
import { cudaRunnerOptions, draftOptions, followerOptions } from "./runner-options.ts";

const SPEC: EngineSpec = { modelDir: "/m", engine: DEFAULT_ENGINE_CONFIG, kvCacheTokens: 0, numThreads: 0 };
const GPU = { ordinal: 1, matrices: undefined };
const NO_CACHE = { type: undefined, bytes: 0, freeFraction: undefined, hostBytes: 0, attentionWindows: [] };
const NETWORK = { address: "127.0.0.1", port: 1, timeoutMs: 1 };
const TWO = { ...GPU, ranks: { ordinals: [0, 1], numTensorRanks: 2, numStages: 1, network: undefined } };
const APART = { ...GPU, ranks: { ...TWO.ranks, network: NETWORK } };
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

test("cudaRunnerOptions() keeps keys and values as FP8 when asked to", () => {
  const kvCache = { ...NO_CACHE, type: "q8_0", isFp8: true } as const;
  assert.equal(cudaRunnerOptions({ ...SPEC, kvCache }, GPU, ignore).cacheType, "e4m3");
  assert.equal(cudaRunnerOptions({ ...SPEC, kvCache: { ...kvCache, isFp8: false } }, GPU, ignore).cacheType, "e4m3");
  assert.equal(cudaRunnerOptions(SPEC, GPU, ignore).cacheType, undefined);
});

test("cudaRunnerOptions() keeps keys and values as halves when asked to", () => {
  const kvCache = { ...NO_CACHE, type: "f16" } as const;
  assert.equal(cudaRunnerOptions({ ...SPEC, kvCache }, GPU, ignore).cacheType, "f16");
});

test("cudaRunnerOptions() keeps keys and values in f32 where all else is f32", () => {
  const kvCache = { ...NO_CACHE, type: "f32" } as const;
  assert.equal(cudaRunnerOptions({ ...SPEC, kvCache, weightType: "f32" }, GPU, ignore).cacheType, undefined);
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

test("cudaRunnerOptions() hands on the deterministic mode to GPUs of one process and of several", () => {
  for (const gpu of [TWO, APART]) {
    assert.equal(cudaRunnerOptions({ ...SPEC, isDeterministic: true, gpu }, GPU, ignore).isDeterministic, true);
  }
});

test("cudaRunnerOptions() has a host KV cache where blocks are used again, and says so where they are not", () => {
  const kvCache = { ...NO_CACHE, hostBytes: 2 ** 30 };
  const lines: string[] = [];
  const tell = (line: string): void => void lines.push(line);
  for (const gpu of [GPU, TWO])
    assert.equal(cudaRunnerOptions({ ...SPEC, kvCache, gpu }, GPU, tell).hostBytes, 2 ** 30);
  const engine = { ...DEFAULT_ENGINE_CONFIG, prefixReuse: false };
  assert.equal(cudaRunnerOptions({ ...SPEC, kvCache, engine }, GPU, tell).hostBytes, 0);
  assert.match(String(lines), /^kv_cache_host_memory_bytes has no effect/);
});

test("cudaRunnerOptions() has room for adapters, on each GPU where several run the model", () => {
  const adapters = { folders: [], maxBytes: 1000, maxRank: 8 };
  assert.equal(cudaRunnerOptions(SPEC, GPU, ignore).adapters?.maxRank, 64);
  assert.deepEqual(cudaRunnerOptions({ ...SPEC, adapters }, GPU, ignore).adapters, adapters);
  assert.deepEqual(cudaRunnerOptions({ ...SPEC, adapters, gpu: TWO }, GPU, ignore).adapters, adapters);
});

test("cudaRunnerOptions() plans a model that drafts on the first of several GPUs, and followerOptions() on no other", () => {
  const options = cudaRunnerOptions({ ...SPEC, draftModelDir: "/d", gpu: TWO }, GPU, ignore);
  assert.deepEqual([options.beside?.modelDir, options.beside?.ordinal], ["/d", 1]);
  const others = followerOptions(options, 3);
  assert.deepEqual([others.beside, others.ordinal, others.tell, others.modelDir], [undefined, 3, undefined, "/m"]);
});

test("cudaRunnerOptions() plans a model that drafts beside the large one, in the same types", () => {
  const { beside } = cudaRunnerOptions({ ...SPEC, draftModelDir: "/d", weightType: "f32" }, GPU, ignore);
  assert.deepEqual([beside?.modelDir, beside?.ordinal, beside?.type, beside?.blockSize], ["/d", 1, "f32", 32]);
  assert.equal(cudaRunnerOptions(SPEC, GPU, ignore).beside, undefined);
  assert.equal(draftOptions({ ...SPEC, draftModelDir: "/d" }, GPU, 77).numBlocks, 77);
});

for (const [what, changes] of [
  ["weight_type q8_0", { weightType: "q8_0" }],
  ["a cache of f32", { kvCache: { ...NO_CACHE, type: "f32" } }],
] as const) {
  test(`cudaRunnerOptions() refuses ${what}`, () => {
    assert.throws(() => cudaRunnerOptions({ ...SPEC, ...changes }, GPU, ignore), new RegExp(`on a GPU ${what} is not`));
  });
}
