import assert from "node:assert/strict";
import { test } from "node:test";
import { availableProcessors } from "./available-processors.ts";

const V1 = "/sys/fs/cgroup/cpu/cpu.cfs_";
const CASES: readonly (readonly [what: string, files: Readonly<Record<string, string>>, expected: number])[] = [
  ["without control groups", {}, 16],
  ["without a quota", { "/sys/fs/cgroup/cpu.max": "max 100000\n" }, 16],
  ["with a quota", { "/sys/fs/cgroup/cpu.max": "250000 100000\n" }, 2],
  ["with less than one processor", { "/sys/fs/cgroup/cpu.max": "50000 100000\n" }, 1],
  ["with more than there are", { "/sys/fs/cgroup/cpu.max": "6400000 100000\n" }, 16],
  ["with an old quota", { [`${V1}quota_us`]: "400000\n", [`${V1}period_us`]: "100000\n" }, 4],
  ["with an old group of no quota", { [`${V1}quota_us`]: "-1\n", [`${V1}period_us`]: "100000\n" }, 16],
  ["with a file of something else", { "/sys/fs/cgroup/cpu.max": "?\n" }, 16],
];

for (const [what, files, expected] of CASES) {
  test(`availableProcessors() counts ${expected} of 16 ${what}`, () => {
    assert.equal(
      availableProcessors((path) => files[path], 16),
      expected,
    );
  });
}
