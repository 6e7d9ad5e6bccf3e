import assert from "node:assert/strict";
import { freemem, totalmem } from "node:os";
import { test } from "node:test";
import { freeMemory } from "./free-memory.ts";

const MACHINE = 1000;
const CASES: readonly (readonly [what: string, files: Readonly<Record<string, string>>, expected: number])[] = [
  ["the machine's without control groups", {}, 1000],
  ["the machine's without a limit", { "memory.max": "max\n", "memory.current": "5" }, 1000],
  ["what is left of the limit", { "memory.max": "600\n", "memory.current": "150\n" }, 450],
  [
    "copies of files on top",
    {
      "memory.max": "600",
      "memory.current": "550",
      "memory.stat": "anon 100\ninactive_file 300\nactive_file 120\nfile 420\n",
    },
    470,
  ],
  ["the machine's when that is less", { "memory.max": "9000", "memory.current": "1" }, 1000],
  ["nothing beyond the limit", { "memory.max": "600", "memory.current": "700" }, 0],
  [
    "the same of the older version",
    {
      "memory/memory.limit_in_bytes": "600",
      "memory/memory.usage_in_bytes": "500",
      "memory/memory.stat": "inactive_file 7\ntotal_inactive_file 50\ntotal_active_file 40",
    },
    190,
  ],
  [
    "the machine's when the older version has no limit",
    { "memory/memory.limit_in_bytes": "9223372036854771712", "memory/memory.usage_in_bytes": "500" },
    1000,
  ],
  [
    "what is left of the group of this process",
    {
      "/proc/self/cgroup": "0::/system.slice/nereid.service\n",
      "system.slice/nereid.service/memory.max": "400",
      "system.slice/nereid.service/memory.current": "100",
      "system.slice/memory.max": "max",
      "system.slice/memory.current": "900",
    },
    300,
  ],
  [
    "what is left of a group around it",
    {
      "/proc/self/cgroup": "9:cpu:/\n4:cpuset,memory:/a/b\n0::/\n",
      "memory/a/b/memory.limit_in_bytes": "900",
      "memory/a/b/memory.usage_in_bytes": "100",
      "memory/a/memory.limit_in_bytes": "500",
      "memory/a/memory.usage_in_bytes": "260",
    },
    240,
  ],
  [
    "what is left of the root, where the path of the group is one seen from outside",
    { "/proc/self/cgroup": "0::/kubepods/pod1", "memory.max": "600", "memory.current": "150" },
    450,
  ],
];

for (const [what, files, expected] of CASES) {
  test(`freeMemory() gives ${what}`, () => {
    const read = (path: string): string | undefined => files[path.replace("/sys/fs/cgroup/", "")];
    assert.equal(freeMemory(read, MACHINE), expected);
  });
}

test("freeMemory() of this machine is some of it", () => {
  const bytes = freeMemory();
  assert.ok(bytes > 0 && bytes <= totalmem() && bytes <= freemem() * 2, `${bytes}`);
});
