import assert from "node:assert/strict";
import { test } from "node:test";
import { chunkToSnapshot, StateSnapshots } from "./state-snapshots.ts";

test("StateSnapshots gives each link a slot, and takes that of the link used longest ago", () => {
  const snapshots = new StateSnapshots(10, 2);
  const [first, second] = [snapshots.take(1), snapshots.take(2)];
  assert.deepEqual(new Set([first, second]), new Set([10, 11]));
  assert.equal(snapshots.take(1), undefined, "a link that has one");
  assert.equal(snapshots.take(3), second, "2 was used before 1");
  assert.deepEqual(
    [1, 2, 3].map((link) => snapshots.use(link)),
    [first, undefined, second],
  );
  snapshots.checkIntegrity();
});

test("StateSnapshots has room again after the prefix cache forgot a link", () => {
  const snapshots = new StateSnapshots(0, 1);
  assert.equal(snapshots.take(5), 0);
  snapshots.forget(5);
  snapshots.forget(6);
  assert.equal(snapshots.use(5), undefined);
  assert.equal(snapshots.take(7), 0);
  snapshots.checkIntegrity();
});

test("StateSnapshots without slots keeps nothing", () => {
  const snapshots = new StateSnapshots(0, 0);
  assert.equal(snapshots.isEnabled, false);
  assert.equal(snapshots.take(1), undefined);
  snapshots.checkIntegrity();
});

test("longest() counts the links up to the last with a snapshot", () => {
  const snapshots = new StateSnapshots(0, 2);
  snapshots.take(4);
  snapshots.take(6);
  assert.deepEqual(
    [[], [3], [4], [4, 5, 6, 7], [4, 5]].map((links) => snapshots.longest(links)),
    [0, 0, 1, 3, 1],
  );
});

const CHUNKS: readonly (readonly [
  what: string,
  computed: number,
  tokens: number,
  shared: number,
  of: number,
  length: number,
])[] = [
  ["a whole prompt stops at its last whole block", 0, 10, 0, 10, 8],
  ["and goes on to its end", 8, 10, 0, 2, 2],
  ["the last token is never taken from others", 0, 8, 0, 8, 4],
  ["a short prompt has no block", 0, 4, 0, 4, 4],
  ["the end of what others begin with comes first", 0, 30, 12, 30, 12],
  ["also behind a state that was taken up", 4, 30, 12, 26, 8],
  ["what is computed already stops nothing", 12, 30, 12, 18, 16],
  ["a cut by the budget falls on the end of a block", 0, 30, 0, 11, 8],
  ["unless that is too far", 1, 30, 0, 2, 2],
];
for (const [what, numComputed, numTokens, numShared, of, length] of CHUNKS) {
  test(`chunkToSnapshot(): ${what}`, () => {
    assert.equal(chunkToSnapshot({ numComputed, numTokens, numShared }, of, 4), length);
  });
}
