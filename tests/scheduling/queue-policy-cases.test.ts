import assert from "node:assert/strict";
import { test } from "node:test";
import type { ModelQueuePolicy } from "../../server/src/core/model-config.ts";
import { playTimeline } from "./timeline.ts";

const LATE = "Request timeout expired";
const FULL = "Exceeds maximum queue size";
const DELAY_US = 10_000_000;

function policy(changes: Partial<ModelQueuePolicy>): ModelQueuePolicy {
  return {
    timeout_action: "REJECT",
    default_timeout_microseconds: 0,
    allow_timeout_override: false,
    max_queue_size: 0,
    ...changes,
  };
}

const SIZES = { preferred_batch_size: [4, 8], max_queue_delay_microseconds: DELAY_US };
/** One row, then twice two rows 200 ms later. */
const ONE_AND_TWICE_TWO = [{ atMs: 0 }, { atMs: 200, rows: 2 }, { atMs: 200, rows: 2 }];

test("a queue for eight refuses two of ten at once", async () => {
  const ten = Array.from({ length: 10 }, (_, i) => ({ atMs: 500 + i }));
  const { batches, ends } = await playTimeline({
    batching: { preferred_batch_size: [4, 8], default_queue_policy: policy({ max_queue_size: 8 }) },
    runMs: 5000,
    arrivals: [{ atMs: 0, rows: 8 }, ...ten],
  });
  assert.deepEqual(batches, ["0 a", "5000 bcdefghi"]);
  assert.deepEqual(ends.slice(0, 2), [`j 508 [request id: j] ${FULL}`, `k 509 [request id: k] ${FULL}`]);
  assert.equal(ends.length, 11);
});

test("a late request that is put off lets the others pass and goes when the delay of the batch is over", async () => {
  const delayed = policy({ timeout_action: "DELAY", default_timeout_microseconds: 100_000 });
  const { batches } = await playTimeline({
    batching: { ...SIZES, default_queue_policy: delayed },
    maxBatchSize: 32,
    arrivals: ONE_AND_TWICE_TWO,
  });
  assert.deepEqual(batches, ["200 bc", "10000 a"]);
});

test("a late request is refused on time, and the others go together", async () => {
  const { batches, ends } = await playTimeline({
    batching: { ...SIZES, default_queue_policy: policy({ default_timeout_microseconds: 100_000 }) },
    maxBatchSize: 32,
    arrivals: ONE_AND_TWICE_TWO,
  });
  assert.deepEqual(batches, ["200 bc"]);
  assert.deepEqual(ends, [`a 100 ${LATE}`, "b 200 YZ", "c 200 YZ"]);
});

for (const { title, timeoutMs, lateMs, batchMs } of [
  { title: "a shorter timeout of the request counts", timeoutMs: 100, lateMs: 100, batchMs: 200 },
  { title: "a longer timeout of the request does not count", timeoutMs: 10_000, lateMs: 1000, batchMs: 1000 },
  { title: "without a timeout of the request the model's counts", timeoutMs: 0, lateMs: 1000, batchMs: 1000 },
]) {
  test(`where requests may say how long they wait, ${title}`, async () => {
    const own = policy({ allow_timeout_override: true, default_timeout_microseconds: 1_000_000 });
    const { batches, ends } = await playTimeline({
      batching: { ...SIZES, default_queue_policy: own },
      maxBatchSize: 32,
      arrivals: [{ atMs: 0, timeoutMs }, ...ONE_AND_TWICE_TWO.slice(1)],
    });
    // Five rows are no preferred size: the others go when the first does not stand in their way any more.
    assert.deepEqual(batches, [`${batchMs} bc`]);
    assert.equal(ends[0], `a ${lateMs} ${LATE}`);
  });
}

test("a request of a higher priority stands first and fills the batch", async () => {
  const { batches } = await playTimeline({
    batching: { ...SIZES, priority_levels: 2, default_priority_level: 2 },
    maxBatchSize: 32,
    arrivals: [{ atMs: 0, rows: 2 }, { atMs: 100 }, { atMs: 300, rows: 2, priority: 1 }],
  });
  assert.deepEqual(batches, ["300 ca", "10100 b"]);
});

test("as many levels of priority as there are numbers cost nothing", async () => {
  const { batches } = await playTimeline({
    batching: { ...SIZES, priority_levels: 2 ** 64, default_priority_level: 2 ** 32 },
    maxBatchSize: 32,
    arrivals: [
      { atMs: 0, rows: 2 },
      { atMs: 100, priority: 2 ** 32 },
      { atMs: 300, rows: 2, priority: 1 },
    ],
  });
  assert.deepEqual(batches, ["300 ca", "10100 b"]);
});

test("many clients with a level each are served by level", async () => {
  const arrivals = Array.from({ length: 26 }, (_, i) => ({ atMs: 0, priority: 1 + ((i * 7) % 26) * 1_000_000 }));
  const { batches } = await playTimeline({
    batching: { preferred_batch_size: [1], priority_levels: 2 ** 64, default_priority_level: 1 },
    holdMs: 10,
    arrivals,
  });
  const letters = arrivals.map(({ priority }, i) => ({ priority, letter: String.fromCharCode(97 + i) }));
  const sorted = letters.sort((a, b) => a.priority - b.priority).map(({ letter }) => `10 ${letter}`);
  assert.deepEqual(batches, sorted);
});

test("levels with policies of their own put off in one and refuse in the other", async () => {
  const late = { allow_timeout_override: true, default_timeout_microseconds: 11_000_000 };
  const { batches, ends } = await playTimeline({
    batching: {
      preferred_batch_size: [4, 8, 32],
      max_queue_delay_microseconds: DELAY_US,
      priority_levels: 2,
      default_priority_level: 2,
      default_queue_policy: policy({ ...late, timeout_action: "DELAY" }),
      priority_queue_policy: { "2": policy(late) },
    },
    maxBatchSize: 32,
    holdMs: 2600,
    arrivals: [
      { atMs: 0, rows: 2, priority: 1 },
      { atMs: 200, priority: 1, timeoutMs: 1000 },
      { atMs: 400, rows: 2, priority: 1 },
      { atMs: 600, rows: 2, priority: 2, timeoutMs: 1900 },
      { atMs: 800, rows: 3, priority: 2 },
      { atMs: 1000, rows: 6, priority: 2 },
    ],
  });
  assert.equal(ends[0], `d 2500 ${LATE}`);
  assert.deepEqual(batches, ["2600 acbe", "11000 f"]);
});

test("a late request is answered while the only instance is still busy", async () => {
  const { ends } = await playTimeline({
    batching: { default_queue_policy: policy({ default_timeout_microseconds: 1_000_000 }) },
    runMs: 10_000,
    arrivals: [{ atMs: 0 }, { atMs: 2000 }],
  });
  assert.deepEqual(ends, [`b 3000 ${LATE}`, "a 10000 YZ"]);
});
