import assert from "node:assert/strict";
import { test } from "node:test";
import type { ConsoleLive, ConsoleLlm, ConsoleModelLoad } from "@nereid/server/protocol/console/console-types";
import { batchCounts, blockCells, livePoint } from "./rates.ts";

const LOAD: ConsoleModelLoad = {
  ...{ name: "m", version: "1", pending: 1, inFlight: 2 },
  ...{ numSuccess: 10, numFailed: 1, numInferences: 20, numExecutions: 5, queueNs: 4e6, computeNs: 1e6 },
  batches: [[4, 5]],
};
const LLM: ConsoleLlm = {
  ...{ active: 1, waiting: 0, maxRequests: 4, kvBlocksMax: 100, kvBlocksUsed: 30, kvBlocksFree: 50 },
  ...{ kvBlocksReused: 2, tokensPerBlock: 16, promptTokens: 64, generatedTokens: 100, draftTokens: 8 },
  acceptedDraftTokens: 6,
};

function live(atMs: number, cpuSeconds: number, ...models: readonly ConsoleModelLoad[]): ConsoleLive {
  return { atMs, process: { cpuSeconds, rssBytes: 1 }, models };
}

test("`livePoint()` makes rates of counters", () => {
  const later = { ...LOAD, numSuccess: 30, numFailed: 2, numInferences: 60, numExecutions: 15, queueNs: 44e6 };
  const point = livePoint(live(1000, 1, LOAD), live(3000, 1.1, later), "");
  const { requestsPerS, failuresPerS, batchSize, queueMs, pending, inFlight, cpuShare } = point;
  assert.deepEqual(
    { requestsPerS, failuresPerS, batchSize, queueMs, pending, inFlight },
    {
      ...{ requestsPerS: 10, failuresPerS: 0.5, batchSize: 4, queueMs: 2, pending: 1, inFlight: 2 },
    },
  );
  assert.ok(Math.abs(cpuShare - 0.05) < 1e-9);
});

test("`livePoint()` takes a counter that fell as that of a new load, and a new model as none", () => {
  const again = { ...LOAD, numSuccess: 4 };
  const other = { ...LOAD, name: "new", numSuccess: 100 };
  assert.equal(livePoint(live(0, 0, LOAD), live(1000, 0, again, other), "").requestsPerS, 4);
});

test("`livePoint()` shows the slowest model's percentiles, and those of one model alone", () => {
  const slow = { ...LOAD, name: "slow", latency: { p50Us: 2000, p90Us: 3000, p99Us: 9000 } };
  const fast = { ...LOAD, latency: { p50Us: 100, p90Us: 200, p99Us: 300 } };
  const before = live(0, 0, LOAD);
  assert.equal(livePoint(before, live(1000, 0, slow, fast, { ...LOAD, name: "idle" }), "").p99Ms, 9);
  assert.equal(livePoint(before, live(1000, 0, slow, fast), "m").p99Ms, 0.3);
  assert.ok(Number.isNaN(livePoint(before, live(1000, 0, LOAD), "").p99Ms));
});

test("`livePoint()` has the shares of prefix cache and draft tokens", () => {
  const first = { ...LOAD, llm: LLM };
  const later = { ...LLM, kvBlocksReused: 6, promptTokens: 192, generatedTokens: 150, draftTokens: 18 };
  const point = livePoint(
    live(0, 0, first),
    live(1000, 0, { ...first, llm: { ...later, acceptedDraftTokens: 11 } }),
    "",
  );
  assert.deepEqual([point.prefixHitShare, point.draftShare, point.tokensPerS], [0.5, 0.5, 50]);
});

test("`batchCounts()` adds models up, by size", () => {
  assert.deepEqual(
    batchCounts([
      LOAD,
      {
        ...LOAD,
        batches: [
          [8, 1],
          [4, 2],
        ],
      },
    ]),
    [
      [4, 7],
      [8, 1],
    ],
  );
});

test("`blockCells()` has a cell for each block, by number", () => {
  const cells = blockCells({ kvBlocksMax: 5, kvBlockMap: "fucsf" }, 320);
  assert.deepEqual(
    cells.map(({ state }) => state),
    ["free", "used", "cached", "shared", "free"],
  );
  assert.deepEqual([cells[3]?.first, cells[3]?.last], [3, 3]);
  assert.deepEqual(blockCells({ kvBlocksMax: 0 }, 50), []);
  assert.ok(blockCells({ kvBlocksMax: 100 }, 320).every(({ state }) => state === "free"));
});

test("`blockCells()` joins neighbours, and shows the one of most use", () => {
  const cells = blockCells({ kvBlocksMax: 9, kvBlockMap: "fuc" + "ff" }, 3);
  assert.deepEqual(cells, [
    { state: "used", first: 0, last: 3 },
    { state: "cached", first: 4, last: 7 },
    { state: "free", first: 8, last: 8 },
  ]);
});
