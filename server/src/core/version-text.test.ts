import assert from "node:assert/strict";
import { test } from "node:test";
import { canonicalVersion } from "./version-text.ts";

const READ: readonly (readonly [string, string])[] = [
  ["", ""],
  ["1", "1"],
  ["0", "0"],
  ["-0", "0"],
  ["007", "7"],
  [" +7", "7"],
  ["1x", "1"],
  ["0x1", "0"],
  ["2.9", "2"],
  ["9223372036854775807", "9223372036854775807"],
];

for (const [text, version] of READ) {
  test(`canonicalVersion() reads "${text}" as "${version}"`, () => {
    assert.equal(canonicalVersion(text), version);
  });
}

for (const text of ["x", " ", "+", "--1", "9223372036854775808", "-9223372036854775809", "9".repeat(10_000)]) {
  test(`canonicalVersion() refuses "${text.slice(0, 24)}"`, () => {
    assert.throws(() => canonicalVersion(text), {
      message: `failed to get model version from specified version string '${text}' (details: stol), version should be an integral value > 0`,
    });
  });
}

test("canonicalVersion() refuses versions below 0 in other words", () => {
  assert.throws(() => canonicalVersion("-1"), {
    message: "invalid model version specified '-1' , version should be an integral value > 0",
  });
});
