import assert from "node:assert/strict";
import test from "node:test";
import { RESTRICTED_APIS } from "../core/restricted-api.ts";
import { parseKeyFile } from "./key-record.ts";

const SHA = "a".repeat(64);

test("reads every field, with defaults for the others", () => {
  const full = {
    name: "team-a",
    sha256: SHA,
    models: ["llama*"],
    apis: ["inference", "metadata"],
    requests_per_minute: 60,
    tokens_per_minute: 9000,
    concurrent_requests: 4,
    priority: 2,
    token_budget: 1_000_000,
    expires: "2027-01-31T00:00:00Z",
  };
  const [team, plain] = parseKeyFile(
    JSON.stringify({ keys: [full, { name: "b", sha256: "b".repeat(64) }] }),
    "keys.json",
  );
  assert.deepEqual(team, {
    name: "team-a",
    sha256: SHA,
    models: ["llama*"],
    apis: ["inference", "metadata"],
    requestsPerMinute: 60,
    tokensPerMinute: 9000,
    concurrentRequests: 4,
    priority: 2,
    tokenBudget: 1_000_000,
    expiresMs: Date.UTC(2027, 0, 31),
  });
  assert.deepEqual(plain?.models, ["*"]);
  assert.deepEqual(plain?.apis, RESTRICTED_APIS);
  assert.equal(plain?.requestsPerMinute, undefined);
});

const ROW = { name: "a", sha256: SHA };
const FAULTS: readonly (readonly [document: unknown, message: RegExp])[] = [
  ["{", /^keys\.json: no JSON: /],
  [[], /^keys\.json: expected \{"keys": \[\.\.\.\]\}, got \[\]$/],
  [{ keys: {} }, /^keys\.json: expected \{"keys"/],
  [{ keys: [7] }, /^keys\.json: keys\[0\]: expected an object, got 7$/],
  [{ keys: [{ ...ROW, name: "two words" }] }, /keys\[0\]\.name: expected 1 to 128 letters.* got "two words"$/],
  [{ keys: [{ name: "a" }] }, /keys\[0\]\.sha256: expected 64 lower-case.* got nothing$/],
  [{ keys: [{ ...ROW, sha256: SHA.toUpperCase() }] }, /keys\[0\]\.sha256/],
  [{ keys: [{ ...ROW, key: "sk-1" }] }, /unknown field "key": keys are stored as sha256/],
  [{ keys: [{ ...ROW, rpm: 1 }] }, /unknown field "rpm"; fields are name, sha256/],
  [{ keys: [{ ...ROW, models: "all" }] }, /keys\[0\]\.models: expected an array of model names, got "all"$/],
  [{ keys: [{ ...ROW, models: [""] }] }, /keys\[0\]\.models/],
  [{ keys: [{ ...ROW, apis: "all" }] }, /keys\[0\]\.apis: expected an array of APIs, got "all"$/],
  [{ keys: [{ ...ROW, apis: ["chat"] }] }, /keys\[0\]\.apis\[0\]: expected one of health, .* got "chat"$/],
  [{ keys: [{ ...ROW, requests_per_minute: 0 }] }, /requests_per_minute: expected an integer of at least 1, got 0$/],
  [{ keys: [{ ...ROW, tokens_per_minute: 1.5 }] }, /tokens_per_minute: .* got 1\.5$/],
  [{ keys: [{ ...ROW, concurrent_requests: "4" }] }, /concurrent_requests: .* got "4"$/],
  [{ keys: [{ ...ROW, priority: -1 }] }, /priority: .* got -1$/],
  [{ keys: [{ ...ROW, token_budget: 2 ** 60 }] }, /token_budget: /],
  [{ keys: [{ ...ROW, expires: "soon" }] }, /expires: expected a date such as .* got "soon"$/],
  [{ keys: [ROW, { ...ROW, sha256: "b".repeat(64) }] }, /keys\[1\]\.name: a is there twice$/],
  [{ keys: [ROW, { ...ROW, name: "b" }] }, /keys\[1\]\.sha256: a+ is there twice$/],
];

for (const [document, message] of FAULTS) {
  const text = typeof document === "string" ? document : JSON.stringify(document);
  test(`refuses ${text.slice(0, 90)}`, () => {
    assert.throws(() => parseKeyFile(text, "keys.json"), { code: "invalid_argument", message });
  });
}
