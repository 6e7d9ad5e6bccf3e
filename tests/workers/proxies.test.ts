/** Rolling restarts of two servers behind real proxies, with the configurations of docs/proxies. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { longTestsReason } from "../support/long-tests.ts";
import { proxies } from "../support/proxies.ts";
import { restartBehind } from "./restarts-behind.ts";

const RESTARTS = 4;

for (const proxy of longTestsReason === undefined ? await proxies() : []) {
  test(`${RESTARTS} restarts behind ${proxy.name} lose nothing`, {
    skip: proxy.reason ?? false,
    timeout: 900_000,
  }, async () => {
    const { lost, answered, streams } = await restartBehind(proxy, { restarts: RESTARTS });
    assert.deepEqual(lost, []);
    assert.ok(answered > 0 && streams > 0);
  });
}

if (longTestsReason !== undefined) test("rolling restarts behind proxies", { skip: longTestsReason }, () => undefined);
