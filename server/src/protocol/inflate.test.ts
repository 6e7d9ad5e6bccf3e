import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync, gzipSync } from "node:zlib";
import { BodyBudget } from "./body-budget.ts";
import { HeldBytes } from "./held-bytes.ts";
import { InflatedTooLarge, inflateInSteps } from "./inflate.ts";

const LIMIT = 1_000_000;
const data = Buffer.from(Array.from({ length: 300_000 }, (_, i) => i & 255));

test("inflateInSteps() inflates both kinds, and counts what it returns", async () => {
  for (const [kind, bytes] of [
    ["gzip", gzipSync(data)],
    ["deflate", deflateSync(data)],
    ["gzip", gzipSync("")],
  ] as const) {
    const budget = new BodyBudget(LIMIT);
    const share = new HeldBytes(budget);
    const inflated = await inflateInSteps(bytes, kind, LIMIT, share);
    assert.ok(inflated.length === 0 || inflated.equals(data));
    assert.equal(budget.take(LIMIT - inflated.length + 1), false);
    assert.equal(budget.take(LIMIT - inflated.length), true);
  }
});

test("inflateInSteps() takes the largest data that is allowed, and no more", async () => {
  const share = new HeldBytes(new BodyBudget(4 * LIMIT));
  assert.equal((await inflateInSteps(gzipSync(Buffer.alloc(LIMIT)), "gzip", LIMIT, share)).length, LIMIT);
  const budget = new BodyBudget(LIMIT);
  for (const size of [LIMIT + 1, 50 * LIMIT]) {
    await assert.rejects(
      inflateInSteps(gzipSync(Buffer.alloc(size)), "gzip", LIMIT, new HeldBytes(budget)),
      InflatedTooLarge,
    );
  }
  assert.equal(budget.take(LIMIT), true);
});

test("inflateInSteps() gives everything back of data that is broken", async () => {
  const budget = new BodyBudget(LIMIT);
  const whole = gzipSync(data);
  for (const bytes of [whole.subarray(0, whole.length / 2), Buffer.from("no gzip"), Buffer.alloc(0)]) {
    await assert.rejects(inflateInSteps(bytes, "gzip", LIMIT, new HeldBytes(budget)));
  }
  assert.equal(budget.take(LIMIT), true);
});

test("bombs side by side hold no more than the budget, and then nothing", async () => {
  const budget = new BodyBudget(3 * LIMIT);
  let most = 0;
  let held = 0;
  const counted = (): HeldBytes => {
    const share = new HeldBytes(budget);
    const hold = share.hold.bind(share);
    const giveBack = share.giveBack.bind(share);
    share.hold = (numBytes) => {
      hold(numBytes);
      held += numBytes;
      most = Math.max(most, held);
    };
    share.giveBack = (numBytes) => {
      giveBack(numBytes);
      held -= numBytes;
    };
    return share;
  };
  const bomb = gzipSync(Buffer.alloc(50 * LIMIT));
  const ends = await Promise.allSettled(
    Array.from({ length: 40 }, () => inflateInSteps(bomb, "gzip", LIMIT, counted())),
  );
  assert.ok(ends.every(({ status }) => status === "rejected"));
  assert.ok(most <= 3 * LIMIT, `${most}`);
  assert.equal(budget.take(3 * LIMIT), true);
});
