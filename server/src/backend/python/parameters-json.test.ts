import assert from "node:assert/strict";
import { test } from "node:test";
import type { ParameterValue } from "../../core/infer-request.ts";
import { parametersJson } from "./parameters-json.ts";

const CASES: readonly (readonly [ParameterValue, string])[] = [
  ['te"xt', '"te\\"xt"'],
  [true, "true"],
  [7, "7"],
  [9223372036854775807n, "9223372036854775807"],
  [{ double: 5 }, "5.0"],
  [{ double: 1.5 }, "1.5"],
  [{ double: -0 }, "-0.0"],
  [{ double: 2 ** 64 }, "18446744073709552000.0"],
  [{ double: 1e300 }, "1e+300"],
  [{ double: Number.NaN }, "NaN"],
  [{ double: Number.NEGATIVE_INFINITY }, "-Infinity"],
];

for (const [value, text] of CASES) {
  test(`\`parametersJson()\` writes ${text} when a parameter has that value`, () => {
    assert.equal(parametersJson(new Map([["k", value]])), `{"k":${text}}`);
  });
}

test("`parametersJson()` keeps every member when there are several", () => {
  const parameters = new Map<string, ParameterValue>([
    ["a", 1],
    ["__proto__", "x"],
  ]);
  assert.equal(parametersJson(parameters), '{"a":1,"__proto__":"x"}');
});
