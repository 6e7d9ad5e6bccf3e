import assert from "node:assert/strict";
import { test } from "node:test";
import { type BatchRules, decideBatch } from "./batch-decision.ts";

const rows = (...sizes: number[]) => sizes.map((size) => ({ rows: size, key: "", waitedUs: 0 }));
const rules = (changes: Partial<BatchRules> = {}): BatchRules => ({
  preferredSizes: [4, 8],
  maxBatchSize: 8,
  queueDelayUs: 1000,
  ...changes,
});

const CASES: readonly {
  title: string;
  queue: ReturnType<typeof rows>;
  rules: BatchRules;
  oldestUs: number;
  take: number;
  waitUs: number;
}[] = [
  { title: "nothing waits", queue: [], rules: rules(), oldestUs: 0, take: 0, waitUs: Number.POSITIVE_INFINITY },
  {
    title: "below every preferred size and early",
    queue: rows(1, 1),
    rules: rules(),
    oldestUs: 300,
    take: 0,
    waitUs: 700,
  },
  {
    title: "below every preferred size and late",
    queue: rows(1, 1),
    rules: rules(),
    oldestUs: 1000,
    take: 2,
    waitUs: 0,
  },
  { title: "a preferred size is met", queue: rows(1, 1, 1, 1), rules: rules(), oldestUs: 0, take: 4, waitUs: 0 },
  {
    title: "the largest preferred size met wins",
    queue: rows(2, 2, 2, 2),
    rules: rules(),
    oldestUs: 0,
    take: 4,
    waitUs: 0,
  },
  {
    title: "between two preferred sizes: the smaller",
    queue: rows(2, 2, 1),
    rules: rules(),
    oldestUs: 0,
    take: 2,
    waitUs: 0,
  },
  { title: "late: everything that fits", queue: rows(2, 2, 1), rules: rules(), oldestUs: 1000, take: 3, waitUs: 0 },
  {
    title: "the next would overshoot",
    queue: rows(3, 3, 3),
    rules: rules({ preferredSizes: [8] }),
    oldestUs: 0,
    take: 2,
    waitUs: 0,
  },
  {
    title: "a request larger than preferred goes alone",
    queue: rows(7, 7),
    rules: rules({ preferredSizes: [4] }),
    oldestUs: 0,
    take: 1,
    waitUs: 0,
  },
  {
    title: "no delay: what is there",
    queue: rows(1, 1, 1),
    rules: rules({ queueDelayUs: 0, preferredSizes: [8] }),
    oldestUs: 0,
    take: 3,
    waitUs: 0,
  },
];

for (const { title, queue, rules: given, oldestUs, take, waitUs } of CASES) {
  test(`decideBatch() takes ${take} when ${title}`, () => {
    // The one that has waited longest may stand anywhere: levels of priority go before age.
    const last = queue.length - 1;
    const aged = queue.map((one, i) => (i === (take === 0 ? last : 0) ? { ...one, waitedUs: oldestUs } : one));
    assert.deepEqual(decideBatch(aged, given), { take, waitUs });
  });
}

test("decideBatch() never mixes keys and sends what stands before the change at once", () => {
  const queue = [
    { rows: 1, key: "a", waitedUs: 0 },
    { rows: 1, key: "a", waitedUs: 0 },
    { rows: 1, key: "b", waitedUs: 0 },
  ];
  assert.deepEqual(decideBatch(queue, rules()), { take: 2, waitUs: 0 });
});

test("decideBatch() never exceeds the maximum and always makes progress, for random queues", () => {
  let seed = 12345;
  const random = (limit: number): number => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed % limit;
  };
  for (let round = 0; round < 5000; round += 1) {
    const maxBatchSize = 1 + random(16);
    const queue = Array.from({ length: random(20) }, () => ({
      rows: 1 + random(maxBatchSize),
      key: String(random(2)),
      waitedUs: random(1000),
    }));
    const preferredSizes = [...new Set([1 + random(maxBatchSize), 1 + random(maxBatchSize)])].sort((a, b) => a - b);
    const queueDelayUs = random(2) * 500;
    const { take, waitUs } = decideBatch(queue, { maxBatchSize, preferredSizes, queueDelayUs });
    const taken = queue.slice(0, take);
    assert.ok(taken.length <= 1 || taken.reduce((sum, { rows: size }) => sum + size, 0) <= maxBatchSize);
    assert.equal(new Set(taken.map(({ key }) => key)).size <= 1, true);
    assert.ok(take > 0 || queue.length === 0 || (waitUs > 0 && waitUs <= queueDelayUs));
  }
});
