import assert from "node:assert/strict";
import { test } from "node:test";
import { goldenTable, insertBetweenMarks } from "./golden-table.ts";

const RESULTS = [
  { id: "trace/a", group: "trace", passed: false },
  { id: "trace/b", group: "trace", passed: true },
  { id: "health/a", group: "health", passed: true },
  { id: "trace/c", group: "trace", passed: false },
];

test("goldenTable() counts groups and names what is missing by its reason, or by its id", () => {
  const table = goldenTable({ results: RESULTS, skipped: [] }, { tracing: ["trace/a"] });
  const rows = table.split("\n").slice(2);
  assert.deepEqual(rows, [
    "| health | 1 / 1 |  |",
    "| trace | 1 / 3 | `trace/c`, tracing |",
    "| **all** | **2 / 4** | |",
  ]);
});

test("goldenTable() refuses a result with skipped recordings", () => {
  assert.throws(() => goldenTable({ results: RESULTS, skipped: ["x"] }, {}), /1 recorded answers were not replayed/);
});

test("insertBetweenMarks() replaces what is between the marks and nothing else", () => {
  const page = (text: string): string =>
    `before\n<!-- recorded answers: begin -->\n\n${text}\n\n<!-- recorded answers: end -->\nafter\n`;
  assert.equal(insertBetweenMarks(page("old"), "new"), page("new"));
  assert.throws(() => insertBetweenMarks("no marks", "x"), /must have the marks/);
});
