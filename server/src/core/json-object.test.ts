import assert from "node:assert/strict";
import { test } from "node:test";
import { jsonWithUint64, uint64Text } from "./json-object.ts";

test("uint64Text() has all digits, and those of the largest value for what rounds to it", () => {
  for (const [value, text] of [
    [0, "0"],
    [2 ** 53 - 1, "9007199254740991"],
    [2 ** 63, "9223372036854775808"],
    [2 ** 64 - 2048, "18446744073709549568"],
    [2 ** 64, "18446744073709551615"],
  ] as const) {
    assert.equal(uint64Text(value), text);
  }
});

test("jsonWithUint64() writes large whole numbers with all digits, and the rest as JSON.stringify does", () => {
  const plain = {
    a: [1, -2, 0.5, 1e300, -1e17],
    "b\0": '"\\u0000uint64:1"',
    c: { d: null, e: undefined, f: "\0uint64:x" },
  };
  assert.equal(jsonWithUint64(plain), JSON.stringify(plain));
  const large = { levels: 2 ** 64, list: [2 ** 53, 2 ** 63], "9": { x: 2 ** 64 } };
  const text =
    '{"9":{"x":18446744073709551615},"levels":18446744073709551615,"list":[9007199254740992,9223372036854775808]}';
  assert.equal(jsonWithUint64(large), text);
});
