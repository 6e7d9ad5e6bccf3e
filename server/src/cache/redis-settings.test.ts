import assert from "node:assert/strict";
import { test } from "node:test";
import { parseRedisSettings } from "./redis-settings.ts";

const parse = (settings: Readonly<Record<string, string>>, env = {}) =>
  parseRedisSettings(new Map(Object.entries(settings)), env);

test("parseRedisSettings() has Triton's defaults", () => {
  assert.deepEqual(parse({ host: "h" }), {
    host: "h",
    port: 6379,
    user: undefined,
    password: undefined,
    db: 0,
    connectTimeoutMs: 1000,
    answerTimeoutMs: 1000,
    poolSize: 1,
    tls: undefined,
  });
});

test("parseRedisSettings() takes the flag before the environment", () => {
  const env = { TRITONCACHE_REDIS_USERNAME: "eu", TRITONCACHE_REDIS_PASSWORD: "ep" };
  const { user, password } = parse({ host: "h", user: "fu" }, env);
  assert.deepEqual([user, password], ["fu", "ep"]);
});

test("parseRedisSettings() reads numbers, times and TLS", () => {
  const given = { host: "h", port: "1", db: "2", socket_timeout: "300", wait_timeout: "500", pool_size: "4" };
  const tls = { tls_enabled: "true", cert: "c", key: "k", cacert: "a", sni: "s" };
  const settings = parse({ ...given, ...tls });
  assert.deepEqual([settings.port, settings.db, settings.answerTimeoutMs, settings.poolSize], [1, 2, 300, 4]);
  assert.deepEqual(settings.tls, { certFile: "c", keyFile: "k", caFile: "a", serverName: "s" });
});

const WRONG: readonly (readonly [Readonly<Record<string, string>>, RegExp])[] = [
  [{}, /redis,host: expected the name of a Redis server, got none/],
  [{ host: "h", port: "0" }, /redis,port: expected a number from 1 to 65535, got '0'/],
  [{ host: "h", port: "1e3" }, /redis,port/],
  [{ host: "h", db: "-1" }, /redis,db/],
  [{ host: "h", pool_size: "65" }, /redis,pool_size/],
  [{ host: "h", tls_enabled: "yes" }, /redis,tls_enabled: expected true or false/],
  [{ host: "h", pasword: "hush" }, /redis,pasword: expected one of host,.*got a name that is not known/],
];
for (const [settings, reason] of WRONG) {
  test(`parseRedisSettings() refuses ${JSON.stringify(settings)}`, () => {
    assert.throws(() => parse(settings), { code: "invalid_argument", message: reason });
  });
}
