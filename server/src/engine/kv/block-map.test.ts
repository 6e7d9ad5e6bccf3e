import assert from "node:assert/strict";
import { test } from "node:test";
import { blockMap, MAX_BLOCK_CELLS } from "./block-map.ts";
import { BlockPool } from "./block-pool.ts";
import { NO_LINK } from "./chain-table.ts";

const UNLINKED = { linkOf: () => NO_LINK };

test("blockMap() tells free, kept, held and shared blocks apart, by number", () => {
  const pool = new BlockPool(6);
  const blocks = Array.from({ length: 5 }, () => pool.allocate());
  assert.deepEqual(blocks, [0, 1, 2, 3, 4]);
  for (const block of [2, 3, 3, 4]) pool.retain(block);
  const linked = new Set([0, 2, 3]);
  const cache = { linkOf: (block: number): number => (linked.has(block) ? block : NO_LINK) };
  // 0: the cache alone; 1: a sequence; 2: both; 3: two sequences and the cache; 4: two sequences; 5: nobody.
  assert.equal(blockMap(pool, cache), "cuussf");
});

test("blockMap() shows the most used of the blocks that share a cell", () => {
  const pool = new BlockPool(2 * MAX_BLOCK_CELLS + 1);
  for (let i = 0; i < 4; i++) pool.allocate();
  pool.retain(3);
  const map = blockMap(pool, UNLINKED);
  assert.equal(map.length, 683);
  assert.equal(map.slice(0, 4), "usff");
  assert.equal(blockMap(new BlockPool(0), UNLINKED), "");
});
