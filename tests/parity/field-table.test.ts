import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { FIELDS_FILE, fieldTable } from "./field-table.ts";

test("docs/model-fields.md lists the fields that each class honours", () => {
  assert.equal(readFileSync(FIELDS_FILE, "utf8"), fieldTable());
});
