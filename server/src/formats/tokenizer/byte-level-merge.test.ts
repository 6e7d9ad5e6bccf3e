import assert from "node:assert/strict";
import { test } from "node:test";
import { PairTable, WordMerge } from "./byte-level-merge.ts";

/** Rules over small ids: rank, left, right, merged. */
const RULES: readonly (readonly [rank: number, left: number, right: number, merged: number])[] = [
  [0, 1, 1, 5],
  [1, 5, 5, 6],
  [2, 2, 1, 7],
  [3, 6, 7, 8],
  [4, 1, 2, 9],
];

function mergedBySlowRule(symbols: readonly number[]): number[] {
  const ids = [...symbols];
  for (;;) {
    let best: { rank: number; at: number; merged: number } | undefined;
    for (let at = 0; at + 1 < ids.length; at++) {
      const rule = RULES.find(([, left, right]) => left === ids[at] && right === ids[at + 1]);
      if (rule !== undefined && (best === undefined || rule[0] < best.rank))
        best = { rank: rule[0], at, merged: rule[3] };
    }
    if (best === undefined) return ids;
    ids.splice(best.at, 2, best.merged);
  }
}

function pairs(): PairTable {
  const table = new PairTable(RULES.length);
  for (const [rank, left, right, merged] of RULES) table.add(left, right, rank, merged);
  return table;
}

function merged(merge: WordMerge, symbols: readonly number[], budget: number): number[] {
  const ids = merge.reserve(symbols.length);
  ids.set(symbols);
  merge.start(symbols.length);
  while (!merge.run(budget));
  return [...ids.subarray(0, merge.finish())];
}

test("`WordMerge` does what the rule says, lowest rank first and leftmost among equals, in steps of any size", () => {
  const merge = new WordMerge(pairs());
  let state = 7;
  for (let round = 0; round < 400; round++) {
    const symbols = Array.from({ length: round % 23 }, () => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
      return 1 + ((state >> 16) % 3);
    });
    const expected = mergedBySlowRule(symbols);
    assert.deepEqual(merged(merge, symbols, Number.POSITIVE_INFINITY), expected, symbols.join());
    assert.deepEqual(merged(merge, symbols, 1), expected, symbols.join());
  }
});

test("`PairTable.find()` gives -1 for a pair without a rule", () => {
  const table = pairs();
  assert.equal(table.find(1, 3), -1);
  assert.equal(table.mergedAt(table.find(6, 7)), 8);
});

test("`PairTable.add()` lets the later rank of a pair win", () => {
  const table = pairs();
  table.add(1, 1, 9, 5);
  assert.equal(table.rankAt(table.find(1, 1)), 9);
});
