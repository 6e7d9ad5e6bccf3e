import assert from "node:assert/strict";
import { test } from "node:test";
import { firstBlockSeen, longestSequence, peakBlocks, type WindowRules } from "./window-blocks.ts";

function rules(window: number | undefined, changes: Partial<WindowRules> = {}): WindowRules {
  return { blockSize: 4, window, maxBatchTokens: 8, chunkedPrefill: true, ...changes };
}

test("firstBlockSeen() is the block of the farthest key that the next query sees", () => {
  const seen = [0, 5, 6, 9, 10, 14, 100].map((numComputed) => firstBlockSeen(numComputed, rules(7)));
  assert.deepEqual(seen, [0, 0, 0, 0, 1, 2, 23]);
  assert.equal(firstBlockSeen(100, rules(undefined)), 0);
  assert.deepEqual(
    [3, 4, 8].map((numComputed) => firstBlockSeen(numComputed, rules(1))),
    [0, 1, 2],
  );
});

/** Blocks that a sequence holds at most when it is computed in chunks of at most `chunk` tokens. */
function heldAtMost(numTokens: number, chunk: number, { window, blockSize, ...rest }: WindowRules): number {
  let most = 0;
  for (let at = 0; at < numTokens; at += 1) {
    // Any chunk may begin anywhere: others share the budget.
    const end = Math.min(numTokens, at + chunk);
    const first = firstBlockSeen(at, { window, blockSize, ...rest });
    most = Math.max(most, Math.ceil(end / blockSize) - first);
  }
  return most;
}

test("peakBlocks() bounds what a sequence holds, to within one block", () => {
  for (const window of [1, 2, 4, 5, 16, 33, 1000]) {
    for (const blockSize of [1, 4, 16]) {
      for (const maxBatchTokens of [1, 5, 64]) {
        for (const numTokens of [1, 17, 64, 300]) {
          const own = rules(window, { blockSize, maxBatchTokens });
          const held = heldAtMost(numTokens, maxBatchTokens, own);
          const peak = peakBlocks(numTokens, own);
          assert.ok(held <= peak && peak <= held + 1, JSON.stringify({ ...own, numTokens, held, peak }));
        }
      }
    }
  }
});

test("peakBlocks() is all blocks without a window, and whole prompts without chunks", () => {
  assert.equal(peakBlocks(100, rules(undefined)), 25);
  assert.equal(peakBlocks(100, rules(8, { chunkedPrefill: false })), 25);
  assert.equal(peakBlocks(100, rules(8)), 5);
});

test("longestSequence() is bounded by the cache unless windows let go of it", () => {
  assert.equal(longestSequence(1000, 20, rules(undefined)), 80);
  assert.equal(longestSequence(50, 20, rules(undefined)), 50);
  assert.equal(longestSequence(1000, 20, rules(16)), 1000);
  assert.equal(longestSequence(1000, 5, rules(16)), 20);
  assert.equal(longestSequence(1000, 20, rules(16, { chunkedPrefill: false })), 80);
});
