import assert from "node:assert/strict";
import { test } from "node:test";
import { type DirectRules, decideRows } from "./direct.ts";

const AT_ONCE: DirectRules = { slotCount: 4, minimumUtilization: 0, queueDelayMs: 0 };
const HALF: DirectRules = { slotCount: 4, minimumUtilization: 0.5, queueDelayMs: 10 };
const NOW_MS = 100;

/** "a5": waits since 5 ms before now with key a; "-": nothing waits. */
function rows(text: string) {
  return text
    .split(" ")
    .filter((row) => row !== "")
    .map((row) => (row === "-" ? undefined : { key: row.slice(0, 1), sinceMs: NOW_MS - Number(row.slice(1)) }));
}

const CASES: readonly (readonly [string, string, DirectRules, string, number])[] = [
  ["waits for ever when no slot is in use", "", AT_ONCE, "", Number.POSITIVE_INFINITY],
  ["waits for ever when nothing waits in the slots", "- -", AT_ONCE, "", Number.POSITIVE_INFINITY],
  ["runs one row at once and keeps its place", "- a0 -", AT_ONCE, "-x-", 0],
  ["runs all that wait", "a0 a1 - a2", AT_ONCE, "xx-x", 0],
  ["leaves out what differs from the oldest", "a1 b3 a0 b0", AT_ONCE, "-x-x", 0],
  ["waits while too few slots have a request", "a4 - -", HALF, "", 6],
  ["runs when enough slots have one", "a4 - a0", HALF, "x-x", 0],
  ["runs too few when the oldest has waited enough", "- a10", HALF, "-x", 0],
  ["counts only rows that may run together", "a4 b3 b2", HALF, "", 6],
  ["needs no delay to run at once", "a0", { ...HALF, queueDelayMs: 0 }, "x", 0],
];

for (const [title, slots, rules, run, waitMs] of CASES) {
  test(`decideRows() ${title}`, () => {
    const decision = decideRows(rows(slots), rules, NOW_MS);
    assert.equal(decision.run.map((runs) => (runs ? "x" : "-")).join(""), run);
    assert.equal(decision.waitMs > 0 ? decision.waitMs : 0, waitMs);
  });
}
