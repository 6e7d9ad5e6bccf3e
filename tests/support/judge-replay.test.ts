import assert from "node:assert/strict";
import { test } from "node:test";
import { faultsOfList, judgeReplay } from "./judge-replay.ts";

function result(id: string, passed: boolean): { id: string; group: string; mode: string; passed: boolean } {
  return { id, group: "g", mode: "default", passed };
}

test("judgeReplay() separates new failures from listed ids that pass", () => {
  const results = [result("a", true), result("b", false), result("c", true), result("d", false)];
  const { unexpected, repaired } = judgeReplay(results, { tracing: ["b"], polling: ["c"] });
  assert.deepEqual([unexpected.map(({ id }) => id), repaired], [["d"], ["c"]]);
});

test("judgeReplay() says nothing of listed ids that were not replayed", () => {
  assert.deepEqual(judgeReplay([], { tracing: ["b"] }), { unexpected: [], repaired: [] });
});

test("faultsOfList() finds ids that are not recorded or stand twice", () => {
  const faults = faultsOfList({ one: ["a", "x"], two: ["a"] }, new Set(["a"]));
  assert.deepEqual(faults, ["x: no such recording", "a: listed twice"]);
});
