import assert from "node:assert/strict";
import { test } from "node:test";
import { uniformAt } from "../sample/random.ts";
import { BlockPool } from "./block-pool.ts";
import { PrefixCache, type PrefixSource } from "./prefix-cache.ts";
import type { Retention } from "./retention.ts";
import type { WindowRules } from "./window-blocks.ts";

const BLOCK = 4;

/** A cache holder of the simplest kind: computes all of its tokens at once. */
interface Chain extends PrefixSource {
  readonly table: Int32Array;
  readonly count: number;
  readonly matched: number;
}

interface Setup {
  readonly pool: BlockPool;
  readonly cache: PrefixCache;
  /** Copies requested so far: from, to. */
  readonly moves: [number, number][];
}

const RULES: WindowRules = { blockSize: BLOCK, window: undefined, maxBatchTokens: 64, chunkedPrefill: true };

function createCache(numBlocks: number, isEnabled = true, numHostBlocks = 0): Setup {
  const pool = new BlockPool(numBlocks);
  const moves: [number, number][] = [];
  const move = (from: number, to: number): number => moves.push([from, to]);
  return { pool, cache: new PrefixCache({ pool, blockSize: BLOCK, isEnabled, numHostBlocks, move }), moves };
}

function source(numbers: readonly number[], cacheSalt = "", retention?: Retention): PrefixSource {
  const tokens = Int32Array.from(numbers);
  return { tokens, tokenKeys: undefined, promptLength: tokens.length, request: { cacheSalt, retention } };
}

function takeAs(cache: PrefixCache, own: PrefixSource): Chain {
  const { tokens } = own;
  const count = Math.ceil(tokens.length / BLOCK);
  const table = new Int32Array(count);
  const { count: matched } = cache.match(own, tokens.length - 1, RULES);
  cache.take(own, table);
  for (let i = matched; i < count; i++) table[i] = cache.allocate();
  return { ...own, table, count, matched };
}

function take(cache: PrefixCache, numbers: readonly number[], salt = ""): Chain {
  return takeAs(cache, source(numbers, salt));
}

function commit(cache: PrefixCache, chain: Chain): void {
  for (let i = chain.matched; i < Math.floor(chain.tokens.length / BLOCK); i++) cache.commit(chain, i, chain.table);
}

/** Computes a chain and lets it go. */
function visit(cache: PrefixCache, own: PrefixSource): Chain {
  const chain = takeAs(cache, own);
  commit(cache, chain);
  cache.release(chain.table, 0, chain.count);
  return chain;
}

function matchLength(cache: PrefixCache, numbers: readonly number[]): number {
  return cache.match(source(numbers), numbers.length, RULES).count;
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
  cache.release(first.table, 0, first.count);
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
  cache.release(first.table, 0, first.count);
  assert.equal(pool.numFree, 4);
  assert.equal(take(cache, range(11)).matched, 0);
});

test("allocate() evicts the least recently released chain, from its end", () => {
  const { pool, cache } = createCache(4);
  const old = take(cache, range(8));
  commit(cache, old);
  const young = take(cache, range(8, 100));
  commit(cache, young);
  cache.release(old.table, 0, old.count);
  cache.release(young.table, 0, young.count);
  assert.equal(cache.numAvailable, 4);
  const next = take(cache, [50]);
  assert.equal(next.table[0], old.table[1]);
  check(pool, cache, [next]);
  assert.equal(matchLength(cache, range(8)), 1);
  assert.equal(matchLength(cache, range(8, 100)), 2);
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

test("match() tells tokens with other keys apart, and equal ones not", () => {
  const { cache } = createCache(16);
  const withKeys = (...keys: number[]): PrefixSource => ({
    ...source(range(9)),
    tokenKeys: Int32Array.from({ length: 18 }, (_, i) => keys[i - 8] ?? 0), // of the fifth token and on
  });
  visit(cache, withKeys(1, 2, 3));
  assert.equal(cache.match(withKeys(1, 2, 3), 8, RULES).count, 2);
  assert.equal(cache.match(withKeys(1, 2, 4), 8, RULES).count, 1);
  assert.equal(cache.match(withKeys(0, 2, 3), 8, RULES).count, 1);
  assert.equal(matchLength(cache, range(8)), 1);
  visit(cache, source(range(8)));
  assert.equal(cache.match(withKeys(), 8, RULES).count, 2); // keys of zero are no keys
});

function retention(priority: number, durationMs = Number.POSITIVE_INFINITY): Retention {
  const end = Number.POSITIVE_INFINITY;
  return { ranges: [{ start: 0, end, priority, durationMs }], decode: { priority: 35, durationMs: end } };
}

test("allocate() evicts by retention priority before age, and keeps a parent as long as its children", () => {
  const { pool, cache } = createCache(6);
  visit(cache, source(range(8), "", retention(80)));
  visit(cache, source(range(8, 100)));
  visit(cache, source(range(8, 200), "", retention(10)));
  const kept = (): number[] => [0, 100, 200].map((first) => matchLength(cache, range(8, first)));
  const held: Chain[] = [];
  const after: number[][] = [];
  for (let i = 0; i < 6; i++) {
    held.push(take(cache, [50]));
    after.push(kept());
    check(pool, cache, held);
  }
  assert.deepEqual(after, [
    [2, 2, 1],
    [2, 2, 0],
    [2, 1, 0],
    [2, 0, 0],
    [1, 0, 0],
    [0, 0, 0],
  ]);
});

test("tick() takes priorities back when their time since the last use is over", () => {
  const { cache } = createCache(4);
  visit(cache, source(range(4), "", retention(90, 100)));
  cache.tick(60);
  visit(cache, source(range(4))); // says nothing of retention, but is a use
  visit(cache, source(range(4, 100), "", retention(50)));
  visit(cache, source(range(4, 200), "", retention(0, 10)));
  visit(cache, source(range(4, 300)));
  cache.tick(159);
  take(cache, [9]);
  assert.equal(matchLength(cache, range(4, 200)), 0); // its time was over, but it is the older one of those of 35
  cache.tick(160);
  take(cache, [9]);
  assert.deepEqual(
    [0, 100, 300].map((first) => matchLength(cache, range(4, first))),
    [0, 1, 1],
  );
});

test("release() counts the blocks behind the prompt as those of the output", () => {
  const { cache } = createCache(3);
  const own = { ...source(range(12), "", { ...retention(50), decode: { priority: 99, durationMs: 1000 } }) };
  visit(cache, { ...own, promptLength: 4 });
  cache.tick(1000);
  take(cache, [9]);
  assert.equal(matchLength(cache, range(12)), 2);
});

test("evicted blocks go to the host KV cache and come back by copies, in order", () => {
  const { pool, cache, moves } = createCache(2, true, 2);
  const first = visit(cache, source(range(8)));
  const second = visit(cache, source(range(8, 100)));
  const [a = -1, b = -1] = first.table;
  assert.deepEqual(moves.splice(0), [
    [b, 3 - 1],
    [a, 3],
  ]);
  assert.deepEqual([cache.numOffloaded, cache.numOnboarded], [2, 0]);
  assert.deepEqual(cache.match(source(range(9)), 8, RULES), { count: 2, first: 0, numTaken: 2 });
  const again = take(cache, range(8)); // its last token is computed, so one block comes back
  assert.equal(again.matched, 1);
  const [c = -1, d = -1] = second.table;
  // One leaves for the block that comes back, another for the new one. The slot that came back is free by then.
  assert.deepEqual(moves.splice(0), [
    [d, 2],
    [3, d],
    [c, 3],
  ]);
  assert.deepEqual([cache.numOffloaded, cache.numOnboarded], [4, 1]);
  check(pool, cache, [again]);
});

test("the host KV cache gives up what is worth least, ends of chains first", () => {
  const { pool, cache } = createCache(1, true, 2);
  visit(cache, source(range(4), "", retention(90)));
  for (const first of [100, 200, 300]) visit(cache, source(range(4, first)));
  assert.deepEqual(
    [0, 100, 200, 300].map((first) => matchLength(cache, range(4, first))),
    [1, 0, 1, 1],
  );
  check(pool, cache, []);
});

test("commit() of a chain that lies in the host KV cache brings it back without a copy", () => {
  const { pool, cache, moves } = createCache(2, true, 4);
  const early = take(cache, range(4)); // not known yet
  visit(cache, source(range(4)));
  const other = take(cache, [9]);
  assert.equal(moves.splice(0).length, 1);
  commit(cache, early);
  assert.deepEqual(moves, []);
  assert.deepEqual(cache.match(source(range(4)), 4, RULES), { count: 1, first: 0, numTaken: 0 });
  cache.release(early.table, 0, 1);
  assert.equal(cache.numAvailable, 1);
  check(pool, cache, [other]);
});

test("release() of the beginning of a chain makes it available while its end is held, and then it is known no more", () => {
  const { pool, cache } = createCache(3);
  const chain = take(cache, range(12));
  commit(cache, chain);
  cache.release(chain.table, 0, 1);
  assert.equal(cache.numAvailable, 1);
  const other = take(cache, [9]);
  assert.equal(matchLength(cache, range(12)), 0);
  pool.checkIntegrity([...cache.checkIntegrity(), ...chain.table.subarray(1), ...other.table]);
  cache.release(chain.table, 1, 3);
  assert.equal(cache.numAvailable, 2);
});

test("match() leaves out what lies before the window", () => {
  const { pool, cache } = createCache(8);
  visit(cache, source(range(20)));
  const own = source(range(21));
  assert.deepEqual(cache.match(own, 20, { ...RULES, window: 9 }), { count: 5, first: 3, numTaken: 2 });
  const table = new Int32Array(6);
  cache.take(own, table);
  assert.deepEqual([...table.subarray(0, 3)], [-1, -1, -1]);
  pool.checkIntegrity([...cache.checkIntegrity(), ...table.subarray(3, 5)]);
});

/** Takes, commits and releases at random, with what each block holds: content follows the copies that are told. */
class RandomUse {
  readonly setup: Setup;
  readonly chains = new Set<Chain>();
  readonly #contents = new Map<number, string>();
  readonly #seed: number;
  #draws = 0;
  reused = 0;

  constructor(setup: Setup, seed: number) {
    this.setup = setup;
    this.#seed = seed;
  }

  draw(below: number): number {
    return Math.floor(uniformAt(this.#seed, 7, this.#draws++) * below);
  }

  step(nowMs: number): void {
    const { cache } = this.setup;
    cache.tick(nowMs);
    // Few different prefixes, so that many match, share and collide.
    const tokens = Array.from({ length: 1 + this.draw(20) }, (_, i) => (i < 8 && this.draw(5) > 0 ? 0 : this.draw(2)));
    const hints = this.draw(3) > 0 ? undefined : retention(this.draw(101), this.draw(99));
    const own = source(tokens, this.draw(6) === 0 ? "salt" : "", hints);
    if (this.draw(2) === 0 && Math.ceil(tokens.length / BLOCK) <= cache.numAvailable) this.#take(own);
    else this.#release();
  }

  #take(own: PrefixSource): void {
    const { cache, moves } = this.setup;
    const chain = takeAs(cache, own);
    for (const [from, to] of moves.splice(0)) this.#contents.set(to, this.#contents.get(from) ?? "nothing");
    for (let i = 0; i < chain.count; i++) {
      const content = `${own.request.cacheSalt}:${own.tokens.slice(0, (i + 1) * BLOCK).join()}`;
      const block = chain.table[i] ?? -1;
      if (i < chain.matched) assert.equal(this.#contents.get(block), content);
      this.#contents.set(block, content);
    }
    this.reused += chain.matched;
    if (this.draw(4) > 0) commit(cache, chain);
    this.chains.add(chain);
  }

  #release(): void {
    const [oldest] = [...this.chains].slice(this.draw(Math.max(1, this.chains.size)));
    if (oldest === undefined) return;
    this.chains.delete(oldest);
    this.setup.cache.release(oldest.table, 0, oldest.count);
  }
}

for (const [seed, numHostBlocks] of [
  [1, 0],
  [2, 0],
  [3, 5],
  [4, 24],
  [5, 100],
] as const) {
  test(`holds, queues and contents stay right over random use (seed ${seed}, ${numHostBlocks} host blocks)`, () => {
    const use = new RandomUse(createCache(24, true, numHostBlocks), seed);
    const { pool, cache } = use.setup;
    for (let step = 0; step < 3000; step++) {
      use.step(step);
      check(pool, cache, use.chains);
    }
    for (const chain of use.chains) cache.release(chain.table, 0, chain.count);
    assert.equal(cache.numAvailable, 24);
    assert.equal(use.reused > 100, true);
    assert.equal(cache.numOnboarded > 0, numHostBlocks > 0);
  });
}
