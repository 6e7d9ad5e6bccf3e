import assert from "node:assert/strict";
import { test } from "node:test";
import { startScript } from "./start-script.ts";

const VALUES = { version: "1.2.3", platform: "linux-x64", hash: "abc" };

test("startScript() fills in its values and the offset of the first byte behind itself", () => {
  for (const length of [0, 60, 70, 80, 880, 960, 970, 980, 9950]) {
    const text = startScript(`@VERSION@ @PLATFORM@ @HASH@ @OFFSET@ @OFFSET@${"x".repeat(length)}\n`, VALUES);
    const [, first, second] = /^1\.2\.3 linux-x64 abc (\d+) (\d+)/.exec(text) ?? [];
    assert.equal(first, second);
    assert.equal(Number(first), text.length + 1, String(length));
  }
});
