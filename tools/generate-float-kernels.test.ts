import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { generate } from "./generate-float-kernels.ts";

test("generate() gives the committed module, so that wire/assembly and its binary cannot drift apart", () => {
  const committed = readFileSync(new URL("../wire/src/gen/float-kernels.ts", import.meta.url), "utf8");
  assert.equal(generate(), committed);
});
