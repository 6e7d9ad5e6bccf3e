import assert from "node:assert/strict";
import { test } from "node:test";
import { insertBefore, insertBehind, PRIORITY_SPAN_MS, rankOf } from "./rank.ts";

test("rankOf() is the time of arrival, later by at most the span", () => {
  assert.equal(rankOf(500, 1), 500);
  assert.equal(rankOf(500, 0), 500 + PRIORITY_SPAN_MS);
  assert.ok(rankOf(0, 0) < rankOf(PRIORITY_SPAN_MS + 1, 1));
});

test("insertBehind() and insertBefore() keep the order of ranks, each on its side of equals", () => {
  const list = [1, 3, 3, 5].map((rank) => ({ rank, name: "old" }));
  insertBehind(list, { rank: 3, name: "behind" });
  insertBefore(list, { rank: 3, name: "before" });
  insertBefore(list, { rank: 9, name: "last" });
  insertBehind(list, { rank: 0, name: "first" });
  assert.deepEqual(
    list.map(({ rank, name }) => `${rank} ${name}`),
    ["0 first", "1 old", "3 before", "3 old", "3 old", "3 behind", "5 old", "9 last"],
  );
});
