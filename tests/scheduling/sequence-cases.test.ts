import assert from "node:assert/strict";
import { test } from "node:test";
import { playSequences, type SequenceTimelineOptions, wholeSequence } from "./sequence-timeline.ts";

interface Case extends SequenceTimelineOptions {
  readonly title: string;
  readonly batches: readonly string[];
}

const HOLD_MS = 10;
const FOUR_OF_THREE = [
  ...wholeSequence(1, [1, 2, 3]),
  ...wholeSequence(2, [11, 12, 13]),
  ...wholeSequence(3, [111, 112, 113]),
  ...wholeSequence(4, [1111, 1112, 1113]),
];
const ROUNDS_OF_FOUR = ["10 1:S1 2:S11 3:S111 4:S1111", "10 1:2 2:12 3:112 4:1112", "10 1:E3 2:E13 3:E113 4:E1113"];
const WIDTHS: Readonly<Record<number, number>> = { 1: 2, 2: 2, 3: 1, 4: 3 };
const OF_DIFFERENT_WIDTH = FOUR_OF_THREE.map((arrival) => ({ ...arrival, width: WIDTHS[arrival.id] ?? 1 }));

/**
 * The direct strategy with one instance of four slots, unless a case says otherwise. Held requests have all arrived
 * when it begins.
 */
const CASES: readonly Case[] = [
  {
    title: "one sequence runs request by request",
    arrivals: wholeSequence(7, [1, 2, 3, 4]),
    batches: ["0 7:S1", "0 7:2", "0 7:3", "0 7:E4"],
  },
  { title: "a sequence of one request", arrivals: wholeSequence(7, [42]), batches: ["0 7:SE42"] },
  {
    title: "a START in a living sequence begins it anew",
    arrivals: [
      { atMs: 0, id: 7, flags: "S", value: 1 },
      { atMs: 1, id: 7, flags: "S", value: 42 },
      { atMs: 2, id: 7, flags: "E", value: 9 },
    ],
    batches: ["0 7:S1", "1 7:S42", "2 7:E9"],
  },
  {
    title: "two sequences fill half of the slots",
    holdMs: HOLD_MS,
    arrivals: [...wholeSequence(1, [1, 2, 3, 4]), ...wholeSequence(2, [0, 9, 5, 13])],
    batches: ["10 1:S1 2:S0", "10 1:2 2:9", "10 1:3 2:5", "10 1:E4 2:E13"],
  },
  {
    title: "sequences that end early leave the rows of the others where they are",
    holdMs: HOLD_MS,
    arrivals: [
      ...wholeSequence(2, [11, 12, 13, 14]),
      ...wholeSequence(4, [1111, 1112, 1113, 1114]),
      ...wholeSequence(1, [1, 3]),
      ...wholeSequence(3, [111, 113]),
    ],
    batches: ["10 2:S11 4:S1111 1:S1 3:S111", "10 2:12 4:1112 1:E3 3:E113", "10 2:13 4:1113", "10 2:E14 4:E1114"],
  },
  {
    title: "four sequences fill all slots",
    holdMs: HOLD_MS,
    arrivals: FOUR_OF_THREE,
    batches: ROUNDS_OF_FOUR,
  },
  {
    title: "four sequences fill the slots of two instances",
    holdMs: HOLD_MS,
    maxBatchSize: 2,
    numInstances: 2,
    arrivals: FOUR_OF_THREE,
    batches: [
      "10 0: 1:S1 3:S111",
      "10 1: 2:S11 4:S1111",
      "10 0: 1:2 3:112",
      "10 1: 2:12 4:1112",
      "10 0: 1:E3 3:E113",
      "10 1: 2:E13 4:E1113",
    ],
  },
  {
    title: "requests of different shapes never run together",
    holdMs: HOLD_MS,
    arrivals: OF_DIFFERENT_WIDTH,
    batches: [
      "10 1:S1 2:S11 - -",
      "10 1:2 2:12 - -",
      "10 1:E3 2:E13 - -",
      "10 - - 3:S111 -",
      "10 - - 3:112 -",
      "10 - - 3:E113 -",
      "10 - - - 4:S1111",
      "10 - - - 4:1112",
      "10 - - - 4:E1113",
    ],
  },
  {
    title: "requests of different shapes run together where the input may be ragged",
    holdMs: HOLD_MS,
    input: { allow_ragged_batch: true },
    arrivals: OF_DIFFERENT_WIDTH,
    batches: ROUNDS_OF_FOUR,
  },
  {
    title: "a fifth sequence waits for a slot",
    holdMs: HOLD_MS,
    arrivals: [...FOUR_OF_THREE, ...wholeSequence(5, [11111, 11112, 11113])],
    batches: [...ROUNDS_OF_FOUR, "10 5:S11111", "10 5:11112", "10 5:E11113"],
  },
  {
    title: "sequences that wait fill the slots of short ones",
    holdMs: HOLD_MS,
    arrivals: [
      ...wholeSequence(1, [1, 2, 3]),
      ...wholeSequence(2, [11, 13]),
      ...wholeSequence(3, [111, 113]),
      ...wholeSequence(4, [1111, 1112, 1113]),
      ...wholeSequence(5, [11111]),
      ...wholeSequence(6, [22222]),
    ],
    batches: ["10 1:S1 2:S11 3:S111 4:S1111", "10 1:2 2:E13 3:E113 4:1112", "10 1:E3 5:SE11111 6:SE22222 4:E1113"],
  },
  {
    title: "a sequence that has waited goes on in the slot that it got, behind empty rows",
    holdMs: HOLD_MS,
    arrivals: [
      ...wholeSequence(1, [1, 2, 3]),
      ...wholeSequence(2, [11, 13]),
      ...wholeSequence(3, [111, 113]),
      ...wholeSequence(4, [1111, 1112, 1113]),
      ...wholeSequence(5, [11111]),
      { atMs: 0, id: 6, flags: "S", value: 22222 },
      { atMs: 0, id: 6, value: 22223 },
      { atMs: 2000, id: 6, flags: "E", value: 22224 },
    ],
    batches: [
      "10 1:S1 2:S11 3:S111 4:S1111",
      "10 1:2 2:E13 3:E113 4:1112",
      "10 1:E3 5:SE11111 6:S22222 4:E1113",
      "10 - - 6:22223",
      "2000 - - 6:E22224",
    ],
  },
  {
    title: "a second sequence of an id waits for the end of the first",
    holdMs: HOLD_MS,
    arrivals: [...FOUR_OF_THREE, ...wholeSequence(1, [11111, 11113])],
    batches: [...ROUNDS_OF_FOUR, "10 1:S11111", "10 1:E11113"],
  },
  {
    title: "a second sequence of an id that never ended takes over its slot",
    holdMs: HOLD_MS,
    arrivals: [
      { atMs: 0, id: 1, flags: "S", value: 1 },
      { atMs: 0, id: 1, value: 3 },
      ...wholeSequence(2, [11, 12, 12, 13]),
      ...wholeSequence(3, [111, 112, 112, 113]),
      ...wholeSequence(4, [1111, 1112, 1112, 1113]),
      ...wholeSequence(1, [11111, 11113]),
    ],
    batches: [
      "10 1:S1 2:S11 3:S111 4:S1111",
      "10 1:3 2:12 3:112 4:1112",
      "10 1:S11111 2:12 3:112 4:1112",
      "10 1:E11113 2:E13 3:E113 4:E1113",
    ],
  },
  {
    title: "a delay without a share of slots to wait for holds nobody",
    holdMs: HOLD_MS,
    batching: { direct: { max_queue_delay_microseconds: 3_000_000, minimum_slot_utilization: 0 } },
    arrivals: [
      { atMs: 0, id: 1, flags: "S", value: 1 },
      { atMs: 0, id: 2, flags: "S", value: 11 },
      { atMs: 0, id: 2, value: 12 },
    ],
    batches: ["10 1:S1 2:S11", "10 - 2:12"],
  },
  {
    title: "less than half of the slots waits for the delay where half is asked for",
    holdMs: HOLD_MS,
    batching: { direct: { max_queue_delay_microseconds: 3_000_000, minimum_slot_utilization: 0.5 } },
    arrivals: [
      { atMs: 0, id: 1, flags: "S", value: 1 },
      { atMs: 0, id: 2, flags: "S", value: 11 },
      { atMs: 0, id: 2, value: 12 },
    ],
    batches: ["10 1:S1 2:S11", "3000 - 2:12"],
  },
  {
    title: "all slots are waited for where all are asked for",
    batching: { direct: { max_queue_delay_microseconds: 3_000_000, minimum_slot_utilization: 1 } },
    arrivals: [
      { atMs: 0, id: 1, flags: "S", value: 1 },
      { atMs: 0, id: 2, flags: "S", value: 11 },
      { atMs: 2000, id: 2, value: 12 },
    ],
    batches: ["3000 1:S1 2:S11", "5000 - 2:12"],
  },
];

for (const { title, batches, ...options } of CASES) {
  test(`SequenceScheduler: ${title}`, async () => {
    const timeline = await playSequences(options);
    assert.deepEqual(timeline.batches, batches);
    assert.equal(timeline.ends.length, options.arrivals.length);
    assert.ok(timeline.ends.every((end) => end.split(" ")[0] === end.split(" ")[2]));
  });
}

test("SequenceScheduler: an idle sequence makes room for one that waits, and is unknown afterwards", async () => {
  const { batches, ends } = await playSequences({
    batching: { max_sequence_idle_microseconds: 5_000_000 },
    maxBatchSize: 1,
    arrivals: [
      { atMs: 0, id: 1, flags: "S", value: 1 },
      ...wholeSequence(5, [11111, 11113], { atMs: 100 }),
      { atMs: 6000, id: 1, value: 3 },
    ],
  });
  assert.deepEqual(batches, ["0 1:S1", "5000 5:S11111", "5000 5:E11113"]);
  const unknown =
    "inference request for sequence 1 to model 'm' must specify the START flag on the first request of the sequence";
  assert.deepEqual(ends, ["1 0 1", "11111 5000 11111", "11113 5000 11113", `3 6000 ${unknown}`]);
});

const EXPIRED = "timeout of the corresponding sequence has been expired";

test("SequenceScheduler: a sequence that waits too long for a slot is given up whole, not one that runs", async () => {
  const { batches, ends } = await playSequences({
    maxBatchSize: 1,
    runMs: 5000,
    arrivals: [
      ...wholeSequence(1, [1, 2, 3], { timeoutMs: 3000 }),
      ...wholeSequence(2, [4, 5, 6], { atMs: 1000, timeoutMs: 3000 }),
    ],
  });
  assert.deepEqual(batches, ["0 1:S1", "5000 1:2", "10000 1:E3"]);
  assert.deepEqual(ends.slice(0, 3), [`4 4000 ${EXPIRED}`, `5 4000 ${EXPIRED}`, `6 4000 ${EXPIRED}`]);
});

test("SequenceScheduler: what comes for a sequence that was given up must be a START", async () => {
  const { ends } = await playSequences({
    maxBatchSize: 1,
    runMs: 5000,
    arrivals: [
      ...wholeSequence(1, [1, 2, 3], { timeoutMs: 3000 }),
      { atMs: 1000, id: 2, flags: "S", value: 4, timeoutMs: 3000 },
      { atMs: 3000, id: 2, value: 5, timeoutMs: 3000 },
      { atMs: 5000, id: 2, flags: "E", value: 6, timeoutMs: 3000 },
    ],
  });
  assert.deepEqual(ends.slice(0, 2), [`4 4000 ${EXPIRED}`, `5 4000 ${EXPIRED}`]);
  assert.match(ends[2] ?? "", /^6 5000 .* must specify the START flag on the first request of the sequence$/);
});
