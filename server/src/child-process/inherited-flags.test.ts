import assert from "node:assert/strict";
import { test } from "node:test";
import { inheritedFlags } from "./inherited-flags.ts";

test("inheritedFlags() keeps loaders and conditions and drops test, debug and one-liner flags", () => {
  const given = [
    "--expose-internals",
    "--conditions=x",
    "--import",
    "tsx",
    "--test",
    "--inspect-brk=0",
    "-e",
    "code()",
    "--stack-size=900",
    "-r",
    "a.cjs",
    "--test-name-pattern",
    "x y",
  ];
  assert.deepEqual(inheritedFlags(given), [
    "--expose-internals",
    "--conditions=x",
    "--import",
    "tsx",
    "--stack-size=900",
    "-r",
    "a.cjs",
  ]);
});
