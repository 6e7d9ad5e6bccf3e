import assert from "node:assert/strict";
import { test } from "node:test";
import { expectSameSite } from "./same-site.ts";

function passes(headers: Readonly<Record<string, string>>, isLocal: boolean): boolean {
  try {
    expectSameSite({ header: (name) => headers[name] }, isLocal);
    return true;
  } catch (error) {
    assert.equal((error as { status?: number }).status, 403);
    return false;
  }
}

test("`expectSameSite()` lets the console's own page and programs pass", () => {
  assert.ok(passes({ host: "localhost:8000", origin: "http://localhost:8000" }, true));
  assert.ok(passes({ host: "[::1]:8000" }, true));
  assert.ok(passes({ host: "127.0.0.1" }, true));
  assert.ok(passes({ host: "Models.example", origin: "https://models.example" }, false));
});

test("`expectSameSite()` refuses pages of other sites, and names that only lead here", () => {
  assert.ok(!passes({ host: "localhost:8000", origin: "http://evil.example" }, true));
  assert.ok(!passes({ host: "localhost:8000", origin: "http://localhost:9000" }, true));
  assert.ok(!passes({ host: "localhost:8000", origin: "null" }, true));
  assert.ok(!passes({ host: "evil.example:8000", origin: "http://evil.example:8000" }, true));
  assert.ok(!passes({}, true));
});
