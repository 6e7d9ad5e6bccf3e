import assert from "node:assert/strict";
import { test } from "node:test";
import { playTimeline, type TimelineOptions } from "./timeline.ts";

const DELAY_MS = 10_000;

interface Case extends Omit<TimelineOptions, "batching"> {
  readonly title: string;
  readonly preferred: readonly number[];
  readonly delayMs?: number;
  readonly batches: readonly string[];
}

const ONE = { atMs: 0 };

/** Preferred sizes 2 and 6 of 8 with a delay of 10 s, unless they say otherwise. */
const CASES: readonly Case[] = [
  {
    title: "requests of a preferred size go at once",
    preferred: [2, 6],
    arrivals: [
      { atMs: 0, rows: 2 },
      { atMs: 100, rows: 6 },
    ],
    batches: ["0 a", "100 b"],
  },
  { title: "a request below every preferred size waits", preferred: [2, 6], arrivals: [ONE], batches: ["10000 a"] },
  {
    title: "a request between preferred sizes waits",
    preferred: [2, 6],
    arrivals: [{ atMs: 0, rows: 3 }],
    batches: ["10000 a"],
  },
  {
    title: "a request above the largest preferred size goes at once",
    preferred: [2, 6],
    arrivals: [{ atMs: 0, rows: 7 }],
    batches: ["0 a"],
  },
  {
    title: "different shapes share a batch where the input may be ragged",
    preferred: [2, 6],
    input: { allow_ragged_batch: true },
    arrivals: [
      { atMs: 0, width: 16 },
      { atMs: 0, width: 8 },
    ],
    batches: ["0 ab"],
  },
  {
    title: "a request of another shape sends those before it and waits itself",
    preferred: [2, 6],
    arrivals: [
      { atMs: 0, width: 16 },
      { atMs: 1000, width: 8 },
    ],
    batches: ["1000 a", "11000 b"],
  },
  {
    title: "requests that make no preferred size together wait, the delay counted from the first",
    preferred: [2, 6],
    arrivals: [ONE, { atMs: 1000, rows: 3 }],
    batches: ["10000 ab"],
  },
  {
    title: "two that wait go when one of another shape comes",
    preferred: [2, 6],
    arrivals: [ONE, { atMs: 0, rows: 3 }, { atMs: 1000, width: 8 }],
    batches: ["1000 ab", "11000 c"],
  },
  {
    title: "those of another shape go too when they make a preferred size",
    preferred: [2, 6],
    arrivals: [ONE, { atMs: 0, rows: 3 }, { atMs: 1000, width: 8 }, { atMs: 1000, rows: 5, width: 8 }],
    batches: ["1000 ab", "1000 cd"],
  },
  {
    title: "a request above the largest preferred size sends the one before it and goes itself",
    preferred: [2, 6],
    arrivals: [
      { atMs: 0, rows: 3 },
      { atMs: 1000, rows: 7 },
    ],
    batches: ["1000 a", "1000 b"],
  },
  {
    title: "a sum above the largest preferred size sends the first, and the second waits",
    preferred: [2, 6],
    arrivals: [
      { atMs: 0, rows: 3 },
      { atMs: 1000, rows: 4 },
    ],
    batches: ["1000 a", "11000 b"],
  },
  {
    title: "a sum above the largest preferred size that has piled up is parted the same way",
    preferred: [2, 6],
    holdMs: 1000,
    arrivals: [
      { atMs: 0, rows: 3 },
      { atMs: 900, rows: 4 },
    ],
    batches: ["1000 a", "10900 b"],
  },
  {
    title: "what has waited too long goes with all that fit",
    preferred: [2, 6],
    holdMs: 11_000,
    arrivals: [{ atMs: 0, rows: 3 }, { atMs: 0, rows: 4 }, { atMs: 10_999 }],
    batches: ["11000 abc"],
  },
  {
    title: "shapes that have piled up go in batches of their own",
    preferred: [2, 6],
    holdMs: 1000,
    arrivals: [ONE, { atMs: 0, rows: 3 }, { atMs: 900, width: 8 }, { atMs: 900, rows: 5, width: 8 }],
    batches: ["1000 ab", "1000 cd"],
  },
  {
    title: "of two preferred sizes that are met the larger one wins",
    preferred: [2, 6],
    holdMs: 10,
    arrivals: [ONE, ONE, ONE, ONE, ONE, ONE],
    batches: ["10 abcdef"],
  },
  {
    title: "what is left over a preferred size waits",
    preferred: [2, 6],
    holdMs: 1000,
    arrivals: [ONE, ONE, { atMs: 900 }],
    batches: ["1000 ab", "10900 c"],
  },
  {
    title: "without a delay a preferred size is taken",
    preferred: [4, 6],
    delayMs: 0,
    holdMs: 10,
    arrivals: [ONE, ONE, ONE, ONE],
    batches: ["10 abcd"],
  },
  {
    title: "without a delay the rest of a preferred size follows at once",
    preferred: [4, 6],
    delayMs: 0,
    holdMs: 10,
    arrivals: [ONE, ONE, ONE, ONE, ONE],
    batches: ["10 abcd", "10 e"],
  },
  {
    title: "without a delay the largest preferred size is taken, then the rest",
    preferred: [4, 6],
    delayMs: 0,
    holdMs: 10,
    arrivals: [ONE, ONE, ONE, ONE, ONE, ONE, ONE],
    batches: ["10 abcdef", "10 g"],
  },
  {
    title: "without a delay and a preferred size all go that there are",
    preferred: [4, 6],
    delayMs: 0,
    holdMs: 10,
    arrivals: [ONE, ONE, ONE],
    batches: ["10 abc"],
  },
  {
    title: "a delay alone gathers up to the largest size",
    preferred: [],
    maxBatchSize: 100,
    delayMs: 10,
    arrivals: Array.from({ length: 12 }, (_, i) => ({ atMs: i / 2 })),
    batches: ["10 abcdefghijkl"],
  },
  {
    title: "without delay and preferred sizes the batch is what piled up while the instance ran",
    preferred: [],
    maxBatchSize: 100,
    delayMs: 0,
    runMs: 100,
    arrivals: Array.from({ length: 12 }, (_, i) => ({ atMs: i / 2 })),
    batches: ["0 a", "100 bcdefghijkl"],
  },
];

for (const { title, preferred, delayMs = DELAY_MS, batches, ...options } of CASES) {
  test(`BatchScheduler: ${title}`, async () => {
    const sizes = preferred.length > 0 ? preferred : [options.maxBatchSize ?? 8];
    const batching = { preferred_batch_size: sizes, max_queue_delay_microseconds: delayMs * 1000 };
    const timeline = await playTimeline({ ...options, batching });
    assert.deepEqual(timeline.batches, batches);
    assert.equal(timeline.ends.filter((end) => end.endsWith(" YZ")).length, options.arrivals.length);
  });
}

test("BatchScheduler batches requests for different outputs and gives each what it asked for", async () => {
  const wishes = [["Y"], ["Y"], ["Z"], ["Z", "Y"], ["Y", "Z"], []];
  const arrivals = wishes.map((outputs) => ({ atMs: 0, outputs }));
  const { batches, ends } = await playTimeline({ batching: { preferred_batch_size: [6] }, holdMs: 10, arrivals });
  assert.deepEqual(batches, ["10 abcdef"]);
  assert.deepEqual(ends, ["a 10 Y", "b 10 Y", "c 10 Z", "d 10 YZ", "e 10 YZ", "f 10 YZ"]);
});

test("BatchScheduler answers in the order of arrival over instances of different speed", async () => {
  const arrivals = Array.from({ length: 12 }, () => ({ atMs: 0 }));
  const { batches, ends } = await playTimeline({
    batching: { preferred_batch_size: [4], preserve_ordering: true },
    maxBatchSize: 4,
    numInstances: 2,
    runMs: 5,
    holdMs: 10,
    arrivals,
  });
  assert.deepEqual(batches, ["10 abcd", "10 efgh", "15 ijkl"]);
  assert.equal(ends.map((end) => end[0]).join(""), "abcdefghijkl");
});
