import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import test from "node:test";
import { RESTRICTED_APIS } from "../core/restricted-api.ts";
import { AccessRefusal } from "./access-refusal.ts";
import { type FinishedUse, KeyGate, type TokenUse } from "./key-gate.ts";
import type { KeyRecord } from "./key-record.ts";

const NOTHING_USED = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 };

function record(changes: Partial<KeyRecord> = {}): KeyRecord {
  return {
    name: "team",
    sha256: createHash("sha256").update("sk-1").digest("hex"),
    models: ["*"],
    apis: RESTRICTED_APIS,
    requestsPerMinute: undefined,
    tokensPerMinute: undefined,
    concurrentRequests: undefined,
    priority: undefined,
    tokenBudget: undefined,
    expiresMs: undefined,
    ...changes,
  };
}

function gateWith(changes: Partial<KeyRecord>, usedTokens = new Map<string, number>()) {
  const time = { nowMs: 0, dateMs: 0 };
  const uses: FinishedUse[] = [];
  const clock = { nowMs: () => time.nowMs, dateMs: () => time.dateMs };
  const gate = new KeyGate({ onFinish: (use) => uses.push(use), usedTokens, clock });
  gate.update([record(changes)]);
  const open = () => gate.admit(gate.identify("sk-1"), { model: "llama", route: "POST /v1/completions" });
  /** A request with one generation. */
  const admit = (maxTokens = 0) => {
    const admission = open();
    try {
      const lease = admission.reserve(maxTokens);
      const finish = (use: TokenUse, status: number): void => {
        lease.settle(use);
        admission.answered(status);
      };
      return { rates: () => gate.rates(gate.identify("sk-1")), finish };
    } catch (error) {
      admission.answered(429);
      throw error;
    }
  };
  return { gate, time, uses, admit };
}

const isRefusal =
  (reason: string, text: RegExp) =>
  (error: unknown): boolean =>
    error instanceof AccessRefusal && error.reason === reason && text.test(error.message);

test("a key is found by its digest; others, none, and an expired one are refused", () => {
  const { gate, time } = gateWith({ expiresMs: 1000 });
  assert.equal(gate.identify("sk-1").record.name, "team");
  assert.throws(() => gate.identify("sk-2"), isRefusal("unauthenticated", /^Incorrect API key provided$/));
  assert.throws(() => gate.identify(undefined), isRefusal("unauthenticated", /^No API key/));
  assert.throws(() => gate.identify(""), isRefusal("unauthenticated", /^No API key/));
  time.dateMs = 1000;
  assert.throws(() => gate.identify("sk-1"), isRefusal("unauthenticated", /expired on 1970-01-01T00:00:01\.000Z$/));
});

function expectOutcome(check: () => void, refusal: ((error: unknown) => boolean) | undefined): void {
  if (refusal === undefined) assert.doesNotThrow(check);
  else assert.throws(check, refusal);
}

const PATTERNS: readonly (readonly [pattern: string, model: string, passes: boolean])[] = [
  ["*", "anything", true],
  ["llama", "llama", true],
  ["llama", "llama2", false],
  ["llama*", "llama2", true],
  ["*-chat", "llama-chat", true],
  ["*-chat", "llama-chat2", false],
  ["a*b*c", "a-b-c", true],
  ["a*b*c", "abc", true],
  ["a*b*c", "ac", false],
  ["ab*ba", "aba", false],
  ["*", "", true],
];

for (const [pattern, model, passes] of PATTERNS) {
  test(`pattern ${pattern} and model "${model}": ${passes}`, () => {
    const { gate } = gateWith({ models: [pattern] });
    const account = gate.identify("sk-1");
    const check = (): void => gate.expectModel(account, model);
    const outcome = passes ? undefined : isRefusal("forbidden", /does not have access to model/);
    expectOutcome(check, outcome);
  });
}

test("requests per minute: refused with the wait, admitted after it, and not refilled by a changed file", () => {
  const { gate, time, admit } = gateWith({ requestsPerMinute: 60 });
  for (let i = 0; i < 60; i += 1) admit().finish(NOTHING_USED, 200);
  const refusal = (): AccessRefusal => {
    try {
      admit();
    } catch (error) {
      assert.ok(error instanceof AccessRefusal);
      return error;
    }
    throw new Error("the request was admitted");
  };
  assert.equal(refusal().retryAfterMs, 1000);
  assert.match(
    refusal().message,
    /^Rate limit reached for key 'team' on requests per minute: limit 60, left 0, requested 1\./,
  );
  time.nowMs = 999;
  assert.equal(refusal().retryAfterMs, 1);
  gate.update([record({ requestsPerMinute: 120 })]);
  time.nowMs = 1000;
  admit().finish(NOTHING_USED, 200);
});

test("tokens per minute: the bound is taken first, the rest comes back at the end", () => {
  const { time, admit } = gateWith({ tokensPerMinute: 1000 });
  const first = admit(600);
  assert.throws(() => admit(600), isRefusal("limited", /on tokens per minute: limit 1000, left 400, requested 600/));
  first.finish({ promptTokens: 50, cachedTokens: 0, completionTokens: 50 }, 200);
  assert.deepEqual(admit(600).rates().tokens, { limit: 1000, remaining: 300, resetMs: 42_000 });
  time.nowMs = 60_000;
  assert.doesNotThrow(() => admit(5000), "a request above a minute's worth passes on a full bucket");
  assert.throws(() => admit(1), isRefusal("limited", /left 0/));
});

test("concurrent requests: a place is free again when a request ends, once", () => {
  const { admit } = gateWith({ concurrentRequests: 2 });
  const one = admit();
  admit();
  assert.throws(() => admit(), isRefusal("limited", /at once: limit 2, open 2$/));
  one.finish(NOTHING_USED, 499);
  one.finish(NOTHING_USED, 200);
  admit();
  assert.throws(() => admit(), isRefusal("limited", /at once/));
});

test("a budget is exact to a token, counts open requests and earlier processes", () => {
  const { admit, uses } = gateWith({ tokenBudget: 1000 }, new Map([["team", 400]]));
  const open = admit(500);
  assert.throws(() => admit(101), isRefusal("exhausted", /budget 1000, left 100, requested up to 101$/));
  const rest = admit(100);
  open.finish({ promptTokens: 200, cachedTokens: 150, completionTokens: 299 }, 200);
  rest.finish({ promptTokens: 100, cachedTokens: 0, completionTokens: 0 }, 200);
  assert.throws(() => admit(2), isRefusal("exhausted", /left 1,/));
  admit(1);
  assert.deepEqual(
    uses
      .filter(({ status }) => status === 200)
      .map(({ promptTokens, completionTokens, status }) => [promptTokens, completionTokens, status]),
    [
      [200, 299, 200],
      [100, 0, 200],
    ],
  );
});

test("a key that leaves the file is refused; its open request ends, and it returns with its state", () => {
  const { gate, admit } = gateWith({ concurrentRequests: 1 });
  const open = admit();
  gate.update([]);
  assert.throws(() => gate.identify("sk-1"), isRefusal("unauthenticated", /Incorrect/));
  gate.update([record({ concurrentRequests: 1 })]);
  assert.throws(() => admit(), isRefusal("limited", /at once/));
  open.finish(NOTHING_USED, 200);
  assert.doesNotThrow(() => admit());
});
