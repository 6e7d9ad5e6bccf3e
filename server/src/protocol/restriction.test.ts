import assert from "node:assert/strict";
import { test } from "node:test";
import type { RestrictedApi } from "../core/restricted-api.ts";
import { Restrictions } from "./restriction.ts";

const restrictions = new Restrictions<RestrictedApi>([
  { apis: ["logging", "trace"], key: "Admin-Key", value: "open" },
  { apis: ["health"], key: "h", value: "" },
]);
const header = (values: Readonly<Record<string, string>>) => (name: string) => values[name];

test("missingKey() passes only the exact value", () => {
  assert.equal(restrictions.missingKey("logging", header({ "admin-key": "open" })), undefined);
  for (const wrong of ["", "Open", "open ", "ope", "opens", "\0open", "öpen"]) {
    assert.equal(restrictions.missingKey("trace", header({ "admin-key": wrong })), "Admin-Key", wrong);
  }
  assert.equal(restrictions.missingKey("trace", header({})), "Admin-Key");
});

test("missingKey() takes an empty value for a present header", () => {
  assert.equal(restrictions.missingKey("health", header({ h: "" })), undefined);
  assert.equal(restrictions.missingKey("health", header({})), "h");
});

test("missingKey() leaves other APIs open", () => {
  assert.equal(restrictions.missingKey("inference", header({})), undefined);
});
