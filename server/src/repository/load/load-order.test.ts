import assert from "node:assert/strict";
import { test } from "node:test";
import { loadWaves } from "./load-order.ts";

const waves = (graph: Readonly<Record<string, readonly string[]>>) =>
  loadWaves(Object.keys(graph), (name) => graph[name] ?? []);

test("loadWaves() puts what is needed into an earlier wave and the rest side by side", () => {
  const graph = { top: ["mid", "leaf"], mid: ["leaf"], leaf: [], other: ["elsewhere"] };
  assert.deepEqual(waves(graph).waves, [["leaf", "other"], ["mid"], ["top"]]);
});

test("loadWaves() reports every model of a cycle with the way round it, and loads the others", () => {
  const { waves: order, circular } = waves({ a: ["b"], b: ["c"], c: ["a"], d: [] });
  assert.deepEqual(order, [["d"]]);
  assert.equal(
    circular.get("a")?.message,
    "circular dependency between ensembles: a -> ... -> c -> a (a -> b -> c -> a)",
  );
  const self = waves({ me: ["me"] }).circular.get("me")?.message;
  assert.equal(self, "circular dependency between ensembles: me -> ... -> me -> me (me -> me)");
  assert.deepEqual([...circular.keys()], ["a", "b", "c"]);
});
