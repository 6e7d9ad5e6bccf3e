import assert from "node:assert/strict";
import { test } from "node:test";
import type { RecordedLaunch } from "../../server/src/device/cuda/fake-kernel-stream.ts";
import { selectChecks } from "./select-checks.ts";

function launchOf(name: string, defines: Readonly<Record<string, number>>, numBlocks: number): RecordedLaunch {
  const spec = { source: `${name}.cu`, name, defines };
  return { spec, grid: [numBlocks, 1, 1], block: [32, 1, 1], sharedBytes: 0, args: [] };
}

const CHECKS = [
  { name: "wide", launches: [launchOf("add", { WIDE: 1 }, 10)] },
  { name: "large", launches: [launchOf("add", { WIDE: 1 }, 1000)] },
  { name: "both", launches: [launchOf("add", { WIDE: 1, FAST: 1 }, 100), launchOf("scale", {}, 1)] },
  { name: "scaled", launches: [launchOf("scale", { BY: 2 }, 1)] },
];

test("selectChecks() takes every kernel and define once, from checks with little work", () => {
  for (const seed of [1, 2, 3]) assert.deepEqual([...selectChecks(CHECKS, seed)].sort(), ["both", "scaled"]);
});

test("selectChecks() takes what a check shows beside its defines", () => {
  const checks = ["rules", "rules", "draw"].map((what, i) => ({
    name: `${what} ${i}`,
    launches: [launchOf("sample", {}, 10 ** i)],
    shows: [what],
  }));
  assert.deepEqual([...selectChecks(checks, 1)].sort(), ["draw 2", "rules 0"]);
});

test("selectChecks() lets the seed choose between checks of equal work", () => {
  const equal = ["a", "b", "c", "d"].map((name) => ({ name, launches: [launchOf("add", {}, 1)] }));
  const chosen = new Set(Array.from({ length: 20 }, (_, seed) => selectChecks(equal, seed).join()));
  assert.ok(chosen.size > 1);
  assert.deepEqual(selectChecks(equal, 5), selectChecks(equal, 5));
});
