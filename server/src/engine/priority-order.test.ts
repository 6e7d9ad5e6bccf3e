import assert from "node:assert/strict";
import { test } from "node:test";
import { insertAfterEqual, insertBeforeEqual, orderKey, PRIORITY_SPAN_MS } from "./priority-order.ts";

test("orderKey() is the time of arrival, later by at most the span", () => {
  assert.equal(orderKey(500, 1), 500);
  assert.equal(orderKey(500, 0), 500 + PRIORITY_SPAN_MS);
  assert.ok(orderKey(0, 0) < orderKey(PRIORITY_SPAN_MS + 1, 1));
});

test("insertAfterEqual() and insertBeforeEqual() keep the order of keys, each on its side of equals", () => {
  const list = [1, 3, 3, 5].map((key) => ({ orderKey: key, name: "old" }));
  insertAfterEqual(list, { orderKey: 3, name: "behind" });
  insertBeforeEqual(list, { orderKey: 3, name: "before" });
  insertBeforeEqual(list, { orderKey: 9, name: "last" });
  insertAfterEqual(list, { orderKey: 0, name: "first" });
  assert.deepEqual(
    list.map(({ orderKey: key, name }) => `${key} ${name}`),
    ["0 first", "1 old", "3 before", "3 old", "3 old", "3 behind", "5 old", "9 last"],
  );
});
