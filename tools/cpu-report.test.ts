import assert from "node:assert/strict";
import { test } from "node:test";
import { cpuReport } from "./cpu-report.ts";

test("cpuReport() names the files of each process, the most expensive first, and adds up", () => {
  const written = [
    { entry: "/a.test.ts", own: 1.5, children: 0.5, wall: 9 },
    { entry: "/tmp/0.test.mjs", own: 2, children: 10.04, wall: 30.26 },
  ];
  const filesByEntry = new Map([
    ["/a.test.ts", ["a.test.ts"]],
    ["/tmp/0.test.mjs", ["b.test.ts", "c.test.ts"]],
  ]);
  assert.deepEqual(cpuReport(`${written.map((each) => JSON.stringify(each)).join("\n")}\n`, filesByEntry).slice(1), [
    " 12.0   2.0    30.3  b.test.ts c.test.ts",
    "  2.0   1.5     9.0  a.test.ts",
    "14.0 s of CPU in 2 processes",
  ]);
});
