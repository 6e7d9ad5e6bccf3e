import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestRepository, identityConfig } from "../../../../tests/fakes/model-repository.ts";
import { collect, fakeRequest, int32, int32Values } from "../../../../tests/fakes/requests.ts";
import { ResponseCache } from "./response-cache.ts";

test("an equal request is answered from the cache, counted as a success that did not run", async () => {
  const cache = new ResponseCache(1 << 20);
  const files = { "m/config.pbtxt": identityConfig("response_cache { enable: true }"), "m/1/.keep": "" };
  await using repository = createTestRepository(files, [], cache);
  await repository.manager.load("m", {});
  const model = repository.registry.lookUp("m", "");
  const ask = (value: number, id: string) =>
    collect(model.infer(fakeRequest([int32("INPUT0", [1, 1], [value])], { id })));
  await ask(7, "a");
  const [again] = await ask(7, "b");
  await ask(8, "c");
  assert.deepEqual([again?.id, int32Values(again?.outputs[0]), again?.final], ["b", [7], true]);
  const { inference_count, inference_stats } = model.statistics.snapshot("m", "1");
  const { success, queue, cache_hit, cache_miss, compute_infer } = inference_stats;
  assert.deepEqual(
    [success, queue, cache_hit, cache_miss, compute_infer].map(({ count }) => count),
    [3, 3, 1, 2, 2],
  );
  assert.deepEqual([inference_count, model.statistics.pending], [2, 0]);
});

test("a reloaded model does not answer with what the old one said", async () => {
  const cache = new ResponseCache(1 << 20);
  const config = identityConfig("response_cache { enable: true }");
  await using repository = createTestRepository({ "m/config.pbtxt": config, "m/1/.keep": "" }, [], cache);
  const { manager, registry } = repository;
  for (const change of ["one", "two"]) {
    const parameter = `parameters { key: "change" value { string_value: "${change}" } }`;
    repository.write("m/config.pbtxt", `${config}\n${parameter}`);
    await manager.load("m", {});
    await collect(registry.lookUp("m", "").infer(fakeRequest([int32("INPUT0", [1, 1], [7])])));
  }
  assert.deepEqual([cache.statistics().numHits, cache.statistics().numEntries], [0, 2]);
});

test("a model that does not ask for the cache is not cached", async () => {
  const cache = new ResponseCache(1 << 20);
  await using repository = createTestRepository({ "m/config.pbtxt": identityConfig(), "m/1/.keep": "" }, [], cache);
  await repository.manager.load("m", {});
  await collect(repository.registry.lookUp("m", "").infer(fakeRequest([int32("INPUT0", [1, 1], [7])])));
  assert.equal(cache.statistics().numLookups, 0);
});
