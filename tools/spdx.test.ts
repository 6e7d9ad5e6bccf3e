import assert from "node:assert/strict";
import { test } from "node:test";
import { isAllowedLicense } from "./spdx.ts";

const ALLOWED = [
  "MIT",
  "(MIT OR CC0-1.0)",
  "GPL-3.0-only OR Apache-2.0",
  "MIT AND (BSD-2-Clause OR GPL-2.0-only)",
  "Apache-2.0 WITH LLVM-exception",
];
const REFUSED = [
  "",
  "GPL-3.0-only",
  "MIT AND GPL-3.0-only",
  "(MIT OR ISC) AND LGPL-2.1-only",
  "GPL-2.0-only WITH Classpath-exception-2.0",
  "UNLICENSED",
  "SEE LICENSE IN LICENSE.txt",
  "MIT OR",
  "(MIT",
  "MIT)",
  "MIT ISC",
  "MIT, ISC",
];

for (const expression of ALLOWED) {
  test(`\`isAllowedLicense()\` accepts "${expression}"`, () => {
    assert.equal(isAllowedLicense(expression), true);
  });
}

for (const expression of REFUSED) {
  test(`\`isAllowedLicense()\` refuses "${expression}"`, () => {
    assert.equal(isAllowedLicense(expression), false);
  });
}
