import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { LAUNCHES_FILE, listLaunches } from "./launches.ts";

test("a pass of each recorded model launches the kernels that launches.txt lists", () => {
  assert.deepEqual(listLaunches().split("\n"), readFileSync(LAUNCHES_FILE, "utf8").split("\n"));
});
