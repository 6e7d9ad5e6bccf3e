import assert from "node:assert/strict";
import { test } from "node:test";
import { planAttention } from "./attention-span.ts";

test("planAttention() reads blocks side by side as one range, and needs no mask for one query", () => {
  const sequence = { queryStart: 3, queryLength: 1, contextLength: 9, blockTable: Int32Array.of(5, 6, 7, 1) };
  assert.deepEqual(planAttention(sequence, 4), {
    queryStart: 3,
    queryLength: 1,
    numKeys: 9,
    keys: { kind: "range", firstSlot: 20 },
  });
});

test("planAttention() gathers the slots of scattered blocks in the order of the sequence", () => {
  const sequence = { queryStart: 0, queryLength: 1, contextLength: 5, blockTable: Int32Array.of(2, 0, 1) };
  assert.deepEqual(planAttention(sequence, 2).keys, { kind: "gather", slots: Int32Array.of(4, 5, 0, 1, 2) });
});

test("planAttention() hides from each query of a chunk the keys after it", () => {
  const sequence = { queryStart: 0, queryLength: 2, contextLength: 4, blockTable: Int32Array.of(0) };
  const hidden = 0xfc00;
  assert.deepEqual(planAttention(sequence, 4).mask, Uint16Array.of(0, 0, 0, hidden, 0, 0, 0, 0));
});

test("planAttention() reads only what the window of the first query reaches", () => {
  const blockTable = Int32Array.of(9, 3, 4, 5);
  const sequence = { queryStart: 0, queryLength: 1, contextLength: 14, blockTable };
  assert.deepEqual(planAttention(sequence, 4, { window: 7 }), {
    queryStart: 0,
    queryLength: 1,
    numKeys: 7,
    keys: { kind: "range", firstSlot: 15 },
  });
  const gathered = planAttention({ ...sequence, contextLength: 6 }, 4, { window: 5 });
  assert.deepEqual(gathered.keys, { kind: "gather", slots: Int32Array.of(37, 38, 39, 12, 13) });
  assert.deepEqual(planAttention(sequence, 4, { window: 14 }).numKeys, 14);
});

test("planAttention() hides from each query of a chunk the keys outside its window", () => {
  const sequence = { queryStart: 0, queryLength: 3, contextLength: 5, blockTable: Int32Array.of(0, 1) };
  const { numKeys, mask } = planAttention(sequence, 4, { window: 2 });
  const hidden = 0xfc00;
  assert.equal(numKeys, 4);
  assert.deepEqual(mask, Uint16Array.of(0, 0, hidden, hidden, hidden, 0, 0, hidden, hidden, hidden, 0, 0));
});

test("planAttention() gathers blocks side by side when it always does", () => {
  const sequence = { queryStart: 0, queryLength: 1, contextLength: 6, blockTable: Int32Array.of(3, 4) };
  const { keys } = planAttention(sequence, 4, { window: 3, alwaysGathers: true });
  assert.deepEqual(keys, { kind: "gather", slots: Int32Array.of(15, 16, 17) });
});

test("planAttention() masks nothing of a text whose tokens see both sides, and keys beyond a window on both", () => {
  const sequence = { queryStart: 0, queryLength: 4, contextLength: 4, blockTable: Int32Array.of(0) };
  assert.equal(planAttention(sequence, 4, { isCausal: false }).mask, undefined);
  const { mask, numKeys } = planAttention(sequence, 4, { isCausal: false, window: 2 });
  assert.equal(numKeys, 4);
  const seen = [...(mask ?? [])].map((value) => (value === 0 ? 1 : 0));
  assert.deepEqual(seen, [1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1]);
});

test("planAttention() begins at the chunk of the first query, and masks the keys before the chunk of each", () => {
  const sequence = { queryStart: 0, queryLength: 4, contextLength: 6, blockTable: Int32Array.of(0, 1) };
  const { mask, numKeys } = planAttention(sequence, 4, { window: 4, isChunk: true });
  assert.equal(numKeys, 6);
  const seen = [...(mask ?? [])].map((value) => (value === 0 ? 1 : 0));
  const rows = [
    [1, 1, 1, 0, 0, 0],
    [1, 1, 1, 1, 0, 0],
    [0, 0, 0, 0, 1, 0],
    [0, 0, 0, 0, 1, 1],
  ];
  assert.deepEqual(seen, rows.flat());
  const decoding = planAttention({ ...sequence, queryLength: 1 }, 4, { window: 4, isChunk: true });
  assert.deepEqual([decoding.numKeys, decoding.keys], [2, { kind: "range", firstSlot: 4 }]);
});
