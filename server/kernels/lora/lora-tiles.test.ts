import assert from "node:assert/strict";
import { test } from "node:test";
import { planTiles, tileGroups, writeTiles } from "./lora-tiles.ts";

const ADDRESSES: ReadonlyMap<number, bigint> = new Map([
  [1, 0x7f00_8000_0000n],
  [2, 0x1_0000_0100n],
]);
const addressOf = (adapter: number): bigint => ADDRESSES.get(adapter) ?? 0n;

/** Rows 0-1 of none, 2-4 of adapter 2, 5 of 1, 6 of none, 7 of 2. */
const SPANS = [
  { queryStart: 0, queryLength: 2 },
  { queryStart: 2, queryLength: 3, adapter: 2 },
  { queryStart: 5, queryLength: 1, adapter: 1 },
  { queryStart: 6, queryLength: 1 },
  { queryStart: 7, queryLength: 1, adapter: 2 },
];

function tilesOf(
  kept: Int32Array | undefined,
  numRows: number,
  isFixed: boolean,
): readonly (readonly [address: bigint, rows: readonly number[]])[] {
  const groups = tileGroups(SPANS, kept);
  const tiles = planTiles(groups, numRows, isFixed);
  const words = new Int32Array(4 + tiles.numTiles * (2 + tiles.rowsPerTile)).fill(99);
  writeTiles(groups, tiles, addressOf, words, { adaptersAt: 4, rowsAt: 4 + 2 * tiles.numTiles });
  assert.deepEqual([...words.subarray(0, 4)], [99, 99, 99, 99]);
  const addresses = new BigUint64Array(words.slice(4, 4 + 2 * tiles.numTiles).buffer);
  return Array.from(addresses, (address, i) => {
    const at = 4 + 2 * tiles.numTiles + i * tiles.rowsPerTile;
    return [address, [...words.subarray(at, at + tiles.rowsPerTile)].filter((row) => row >= 0)];
  });
}

test("writeTiles() puts the rows of each adapter into tiles of their own", () => {
  assert.deepEqual(tilesOf(undefined, 8, false), [
    [addressOf(2), [2, 3, 4, 7]],
    [addressOf(1), [5]],
  ]);
});

test("writeTiles() of kept rows names them by their places among these", () => {
  assert.deepEqual(tilesOf(Int32Array.of(7, 1, 4, 5), 4, false), [
    [addressOf(2), [0, 2]],
    [addressOf(1), [3]],
  ]);
});

test("planTiles() of a fixed number has a tile for each row, and those beyond the adapters are empty", () => {
  const tiles = tilesOf(undefined, 16, true);
  assert.equal(tiles.length, 16);
  assert.deepEqual(new Set(tiles.slice(2).map(([address, rows]) => `${address} ${rows}`)), new Set(["0 "]));
});

for (const [counts, expected] of [
  [[8, 3], { numTiles: 2, rowsPerTile: 8 }],
  [[9], { numTiles: 1, rowsPerTile: 32 }],
  [[70, 1, 32], { numTiles: 5, rowsPerTile: 32 }],
] as const) {
  test(`planTiles() of ${counts.join(", ")} rows makes ${expected.numTiles} of ${expected.rowsPerTile}`, () => {
    const groups = counts.map((count, i) => ({ adapter: i, rows: { kind: "range", first: 0, count } as const }));
    assert.deepEqual(planTiles(groups, 200, false), expected);
  });
}

test("writeTiles() refuses more rows than there is room for", () => {
  const groups = tileGroups(SPANS, undefined);
  const places = { adaptersAt: 0, rowsAt: 2 };
  const write = (): void => writeTiles(groups, { numTiles: 1, rowsPerTile: 8 }, addressOf, new Int32Array(16), places);
  assert.throws(write, /need more than 1 tiles/);
});
