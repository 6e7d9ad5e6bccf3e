/** The response cache in a real Redis server. Skipped where there is none. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { RedisCache } from "../../server/src/cache/redis-cache.ts";
import { parseRedisSettings } from "../../server/src/cache/redis-settings.ts";
import { ServerError } from "../../server/src/core/server-error.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../server/src/observe/log.ts";
import { createTestRepository, identityConfig, type TestRepository } from "../fakes/model-repository.ts";
import { collect, fakeRequest, int32, int32Values } from "../fakes/requests.ts";
import { findRedis, RedisProcess } from "../redis-server.ts";
import { createModelRepository, EXAMPLES } from "../support/model-repository.ts";
import { SIMPLE_REQUEST } from "../support/probe-server.ts";
import { freePort, startServerProcess } from "../support/server-process.ts";
import { StoreProxy, type StoreState } from "../support/store-proxy.ts";

const redis = await findRedis();
const CACHED = { "m/config.pbtxt": identityConfig("response_cache { enable: true }"), "m/1/weights": "x" };

async function startRedis(t: TestContext, flags: readonly string[] = []): Promise<RedisProcess> {
  const started = await RedisProcess.start(redis.program ?? "", await freePort(), flags);
  t.after(() => started[Symbol.asyncDispose]());
  return started;
}

async function openCache(t: TestContext, port: number, more: Readonly<Record<string, string>> = {}, env = {}) {
  const lines: string[] = [];
  const sink = { out: (line: string) => void lines.push(line), err: (line: string) => void lines.push(line) };
  const given = { host: "127.0.0.1", port: String(port), wait_timeout: "300", ...more };
  const settings = parseRedisSettings(new Map(Object.entries(given)), env);
  const cache = await RedisCache.open(settings, new ServerLog(DEFAULT_LOG_SETTINGS, { sink }));
  t.after(() => cache[Symbol.asyncDispose]());
  return { cache, lines };
}

function serve(
  t: TestContext,
  remoteCache: RedisCache,
  files: Readonly<Record<string, string>> = CACHED,
): TestRepository {
  const repository = createTestRepository(files, [], undefined, { remoteCache });
  t.after(() => repository[Symbol.asyncDispose]());
  return repository;
}

async function ask({ registry }: TestRepository, value: number, model = "m", input = "INPUT0"): Promise<number[]> {
  const [response] = await collect(registry.lookUp(model, "").infer(fakeRequest([int32(input, [1, 1], [value])])));
  return int32Values(response?.outputs[0]);
}

async function untilTrue(condition: () => boolean): Promise<void> {
  for (let look = 0; look < 500 && !condition(); look += 1) await sleep(20);
  assert.ok(condition());
}

/** Insertions are not waited for by anybody. */
async function untilHit(cache: RedisCache, action: () => Promise<unknown>): Promise<void> {
  const { numHits } = cache.statistics();
  for (let look = 0; look < 600 && cache.statistics().numHits === numHits; look += 1) {
    await action();
    await sleep(20);
  }
  assert.ok(cache.statistics().numHits > numHits);
}

describe("the response cache in Redis", { skip: redis.reason }, () => {
  test("an answer is found again, also by another server with the same model, and by none with another", async (t) => {
    const { port } = await startRedis(t);
    const { cache } = await openCache(t, port);
    const first = serve(t, cache);
    await first.manager.load("m", {});
    assert.deepEqual(await ask(first, 7), [7]);
    await untilHit(cache, () => ask(first, 7));
    const { inference_stats } = first.registry.lookUp("m", "").statistics.snapshot("m", "1");
    assert.ok(inference_stats.cache_hit.count > 0);
    const { cache: elsewhere } = await openCache(t, port);
    const second = serve(t, elsewhere);
    await second.manager.load("m", {});
    assert.deepEqual(await ask(second, 7), [7]);
    assert.equal(elsewhere.statistics().numHits, 1);
    const third = serve(t, elsewhere, { ...CACHED, "m/1/weights": "y" });
    await third.manager.load("m", {});
    await ask(third, 7);
    assert.equal(elsewhere.statistics().numHits, 1);
  });

  test("a Redis that crashes, hangs or comes back fails no request, and is told once", async (t) => {
    const server = await startRedis(t);
    const { cache, lines } = await openCache(t, server.port);
    const served = serve(t, cache);
    await served.manager.load("m", {});
    await untilHit(cache, () => ask(served, 1));
    await server.crash();
    const burst = (from: number) => Promise.all(Array.from({ length: 50 }, (_, i) => ask(served, from + i)));
    assert.deepEqual(
      (await burst(100)).flat(),
      Array.from({ length: 50 }, (_, i) => 100 + i),
    );
    await untilTrue(() => lines.some((line) => line.includes("requests are computed meanwhile")));
    await server.restart();
    await untilTrue(() => lines.some((line) => line.includes("connected again")));
    await untilHit(cache, () => ask(served, 2));
    server.pause(true);
    assert.deepEqual(
      (await burst(200)).flat(),
      Array.from({ length: 50 }, (_, i) => 200 + i),
    );
    // All are answered while Redis still hangs.
    server.pause(false);
    await untilHit(cache, () => ask(served, 3));
    assert.ok(lines.filter((line) => line.includes("computed meanwhile")).length <= 4, lines.join(""));
    assert.ok(cache.statistics().numFailures >= 50);
  });

  test("a half-open connection delays the lookups that meet it, and is replaced", async (t) => {
    const server = await startRedis(t);
    await using proxy = await StoreProxy.start(server.port);
    const { cache, lines } = await openCache(t, proxy.port);
    const served = serve(t, cache);
    await served.manager.load("m", {});
    await untilHit(cache, () => ask(served, 1));
    await proxy.enter({ kind: "stalls" });
    const waited = [];
    for (let value = 2; value < 12; value += 1) {
      const { lookupUs } = cache.statistics();
      assert.deepEqual(await ask(served, value), [value]);
      waited.push((cache.statistics().lookupUs - lookupUs) / 1000);
    }
    // One lookup has met the silence; the others knew of it.
    assert.equal(waited.filter((ms) => ms >= 250).length, 1, waited.join());
    await proxy.enter({ kind: "well" });
    await untilTrue(() => lines.some((line) => line.includes("connected again")));
    await untilHit(cache, () => ask(served, 1));
  });

  test("a cache that is cut, reset, late or refused fails no request, and answers again", async (t) => {
    const server = await startRedis(t);
    await using proxy = await StoreProxy.start(server.port);
    const { cache } = await openCache(t, proxy.port);
    const served = serve(t, cache);
    await served.manager.load("m", {});
    const states: readonly StoreState[] = [
      { kind: "cuts", afterBytes: 3 },
      { kind: "resets" },
      { kind: "late", delayMs: 1000 },
      { kind: "refuses" },
    ];
    for (const state of states) {
      await untilHit(cache, () => ask(served, 1));
      await proxy.enter(state);
      const { numFailures } = cache.statistics();
      assert.deepEqual(await Promise.all([5, 6, 7].map((value) => ask(served, value))), [[5], [6], [7]]);
      assert.ok(cache.statistics().numFailures > numFailures, state.kind);
      await proxy.enter({ kind: "well" });
    }
    await untilHit(cache, () => ask(served, 1));
  });

  test("a user and a password are needed and never told; without them requests are computed", async (t) => {
    const { port } = await startRedis(t, [
      "--user",
      "nereid",
      "on",
      ">hush",
      "~nereid:*",
      "+@all",
      "--user",
      "default",
      "off",
    ]);
    const right = { TRITONCACHE_REDIS_USERNAME: "nereid", TRITONCACHE_REDIS_PASSWORD: "hush" };
    const { cache } = await openCache(t, port, {}, right);
    const served = serve(t, cache);
    await served.manager.load("m", {});
    await untilHit(cache, () => ask(served, 1));
    const { cache: refused, lines } = await openCache(t, port, { user: "nereid", password: "wrong-hush" });
    const other = serve(t, refused);
    await other.manager.load("m", {});
    assert.deepEqual(await ask(other, 1), [1]);
    assert.equal(refused.statistics().numHits, 0);
    assert.match(lines.join(""), /WRONGPASS|invalid username-password/);
    assert.doesNotMatch(lines.join(""), /hush/);
  });

  test("databases keep answers apart, and several connections share them", async (t) => {
    const { port } = await startRedis(t);
    const { cache } = await openCache(t, port, { db: "3", pool_size: "4" });
    const served = serve(t, cache);
    await served.manager.load("m", {});
    await untilHit(cache, () => ask(served, 1));
    for (let i = 0; i < 8; i += 1) await ask(served, 1);
    assert.ok(cache.statistics().numHits >= 9);
    const { cache: zero } = await openCache(t, port);
    const other = serve(t, zero);
    await other.manager.load("m", {});
    await ask(other, 1);
    assert.equal(zero.statistics().numHits, 0);
  });

  test("what somebody else has put in the place of an answer is not used", async (t) => {
    const { port } = await startRedis(t);
    const { cache } = await openCache(t, port);
    const { createClient } = await import("@redis/client");
    const client = await createClient({ socket: { port, host: "127.0.0.1" } }).connect();
    client.on("error", () => undefined); // the server goes first
    t.after(() => client.destroy());
    const served = serve(t, cache);
    await served.manager.load("m", {});
    await ask(served, 9);
    let keys: string[] = [];
    for (let look = 0; look < 100 && keys.length === 0; look += 1) {
      keys = await client.keys("nereid:*");
      await sleep(10);
    }
    assert.equal(keys.length, 1);
    await client.set(keys[0] ?? "", "no answer of ours");
    assert.deepEqual(await ask(served, 9), [9]);
    await client.del(keys);
    await client.lPush(keys[0] ?? "", "of another kind");
    assert.deepEqual(await ask(served, 9), [9]);
  });

  test("a drain waits for lookups: what was accepted is answered, what comes later refused", async (t) => {
    const server = await startRedis(t);
    const { cache } = await openCache(t, server.port);
    const served = serve(t, cache);
    await served.manager.load("m", {});
    server.pause(true);
    const model = served.registry.lookUp("m", "");
    const asked = Array.from({ length: 20 }, (_, i) => ask(served, i));
    assert.equal(model.inFlight, 20);
    await served.manager.unload("m", false);
    assert.throws(() => model.infer(fakeRequest([int32("INPUT0", [1, 1], [1])])), ServerError);
    assert.deepEqual(
      (await Promise.all(asked)).flat(),
      Array.from({ length: 20 }, (_, i) => i),
    );
    server.pause(false);
  });
});

test("a server with --cache-config=redis answers from it and counts that on its metrics page", {
  skip: redis.reason,
}, async (t) => {
  const { port } = await startRedis(t, ["--requirepass", "hush"]);
  const config = `${readFileSync(join(EXAMPLES, "simple/config.pbtxt"), "utf8")}\nresponse_cache { enable: true }\n`;
  await using models = await createModelRepository({ copies: [join(EXAMPLES, "simple")] });
  writeFileSync(join(models.path, "simple/config.pbtxt"), config);
  const flags = [`--cache-config=redis,host=127.0.0.1`, `--cache-config=redis,port=${port}`];
  const env = { TRITONCACHE_REDIS_PASSWORD: "hush" };
  const server = await startServerProcess({ repositories: [models.path], flags, env });
  t.after(() => server.kill());
  const infer = async (): Promise<string> => {
    const body = SIMPLE_REQUEST;
    const response = await fetch(`${server.baseUrl}/v2/models/simple/infer`, { method: "POST", body });
    assert.equal(response.status, 200);
    return response.text();
  };
  const metric = async (name: string): Promise<number> => {
    const page = await (await fetch(`http://127.0.0.1:${server.metrics}/metrics`)).text();
    return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, "m").exec(page)?.[1]);
  };
  const first = await infer();
  for (let look = 0; look < 100 && (await metric("nv_cache_num_hits")) === 0; look += 1) {
    assert.equal(await infer(), first);
  }
  assert.ok((await metric("nv_cache_num_hits")) > 0);
  assert.ok((await metric("nv_cache_num_hits_per_model")) > 0);
  assert.equal(await metric("nereid_cache_num_failures"), 0);
  await server.stop();
  assert.doesNotMatch(server.log(), /hush/);
});

test("a server starts without Redis", async (t) => {
  const { cache, lines } = await openCache(t, await freePort());
  const served = serve(t, cache);
  await served.manager.load("m", {});
  assert.deepEqual(await ask(served, 5), [5]);
  assert.match(lines.join(""), /response cache in Redis at 127\.0\.0\.1:\d+: .*requests are computed meanwhile/);
});
