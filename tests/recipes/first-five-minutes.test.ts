import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { WALK_PAGE, walkPage } from "../../tools/first-five-minutes.ts";
import { freePorts } from "../support/server-process.ts";

test("docs/first-five-minutes.md shows what its commands print", { timeout: 600_000 }, async () => {
  assert.equal(await walkPage(await freePorts()), readFileSync(WALK_PAGE, "utf8"));
});
