import assert from "node:assert/strict";
import { test } from "node:test";
import { BlockPool } from "./block-pool.ts";
import { PrefixCache } from "./prefix-cache.ts";
import { uniformAt } from "./random.ts";

const BLOCK = 4;

/** A cache holder of the simplest kind: computes all of its tokens at once. */
interface Chain {
  readonly tokens: Int32Array;
  readonly salt: string;
  readonly table: Int32Array;
  readonly count: number;
  readonly matched: number;
}

function createCache(numBlocks: number, enabled = true): { pool: BlockPool; cache: PrefixCache } {
  const pool = new BlockPool(numBlocks);
  return { pool, cache: new PrefixCache(pool, BLOCK, enabled) };
}

function take(cache: PrefixCache, numbers: readonly number[], salt = ""): Chain {
  const tokens = Int32Array.from(numbers);
  const count = Math.ceil(tokens.length / BLOCK);
  const table = new Int32Array(count);
  const matched = cache.match(tokens, tokens.length - 1, salt, table);
  cache.hold(table, matched);
  for (let i = matched; i < count; i++) table[i] = cache.allocate();
  return { tokens, salt, table, count, matched };
}

function commit(cache: PrefixCache, { tokens, salt, table, matched }: Chain): void {
  for (let i = matched; i < Math.floor(tokens.length / BLOCK); i++) cache.commit(tokens, i, salt, table);
}

function check(pool: BlockPool, cache: PrefixCache, chains: Iterable<Chain>): void {
  const holds = cache.checkIntegrity();
  for (const { table, count } of chains) holds.push(...table.subarray(0, count));
  pool.checkIntegrity(holds);
}

function range(length: number, first = 0): number[] {
  return Array.from({ length }, (_, i) => first + i);
}

test("match() finds full blocks of an equal prefix, with the same salt only", () => {
  const { pool, cache } = createCache(16);
  const first = take(cache, range(11));
  commit(cache, first);
  cache.release(first.table, first.count);
  assert.equal(take(cache, range(11)).matched, 2);
  assert.equal(take(cache, range(8)).matched, 1); // the last token is always computed
  assert.equal(take(cache, [...range(4), 99, ...range(6)]).matched, 1);
  assert.equal(take(cache, range(11, 1)).matched, 0);
  assert.equal(take(cache, range(5), "other").matched, 0);
  assert.equal(pool.numFree, 16 - 2 - (1 + 1 + 2 + 3 + 2));
});

test("match() finds nothing when reuse is off, and released blocks are free", () => {
  const { pool, cache } = createCache(4, false);
  const first = take(cache, range(11));
  commit(cache, first);
  cache.release(first.table, first.count);
  assert.equal(pool.numFree, 4);
  assert.equal(take(cache, range(11)).matched, 0);
});

test("allocate() evicts the least recently released chain, from its end", () => {
  const { pool, cache } = createCache(4);
  const old = take(cache, range(8));
  commit(cache, old);
  const young = take(cache, range(8, 100));
  commit(cache, young);
  cache.release(old.table, old.count);
  cache.release(young.table, young.count);
  assert.equal(cache.numAvailable, 4);
  const next = take(cache, [50]);
  assert.equal(next.table[0], old.table[1]);
  check(pool, cache, [next]);
  const table = new Int32Array(2);
  assert.equal(cache.match(Int32Array.from(range(9)), 8, "", table), 1);
  assert.equal(cache.match(Int32Array.from(range(9, 100)), 8, "", table), 2);
});

test("commit() lets two sequences that computed the same prefix share it", () => {
  const { pool, cache } = createCache(8);
  const one = take(cache, range(9));
  const two = take(cache, range(9));
  commit(cache, one);
  commit(cache, two);
  assert.deepEqual([...two.table.subarray(0, 2)], [...one.table.subarray(0, 2)]);
  assert.equal(pool.numFree, 8 - 4);
  check(pool, cache, [one, two]);
});

test("allocate() throws when nothing is left", () => {
  const { cache } = createCache(2);
  take(cache, range(8));
  assert.throws(() => cache.allocate(), /no block to evict/);
});

for (const seed of [1, 2, 3, 4, 5]) {
  test(`holds and lists stay consistent over random takes, commits and releases (seed ${seed})`, () => {
    const numBlocks = 24;
    const { pool, cache } = createCache(numBlocks);
    const chains = new Set<Chain>();
    let draws = 0;
    const draw = (below: number): number => Math.floor(uniformAt(seed, 7, draws++) * below);
    let reused = 0;
    for (let step = 0; step < 3000; step++) {
      const length = 1 + draw(20);
      // Few different prefixes, so that many match, share and collide.
      const tokens = Array.from({ length }, (_, i) => (i < 8 ? (draw(5) === 0 ? draw(2) : 0) : draw(2)));
      if (draw(2) === 0 && Math.ceil(length / BLOCK) <= cache.numAvailable) {
        const chain = take(cache, tokens, draw(6) === 0 ? "salt" : "");
        reused += chain.matched;
        if (draw(4) > 0) commit(cache, chain);
        chains.add(chain);
      } else {
        const [oldest] = [...chains].slice(draw(Math.max(1, chains.size)));
        if (oldest !== undefined) {
          chains.delete(oldest);
          cache.release(oldest.table, oldest.count);
        }
      }
      check(pool, cache, chains);
    }
    for (const chain of chains) cache.release(chain.table, chain.count);
    assert.equal(cache.numAvailable, numBlocks);
    assert.equal(reused > 100, true);
  });
}
