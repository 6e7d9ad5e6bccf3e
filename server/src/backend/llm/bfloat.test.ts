import assert from "node:assert/strict";
import { test } from "node:test";
import { bfloatToNumber, numberToBfloat } from "./bfloat.ts";

test("numberToBfloat() gives back every bfloat16 and rounds to the nearest", () => {
  for (let bits = 0; bits < 0x10000; bits++) {
    const value = bfloatToNumber(bits);
    assert.equal(
      Number.isNaN(value) ? Number.isNaN(bfloatToNumber(numberToBfloat(value))) : numberToBfloat(value) === bits,
      true,
    );
  }
  assert.equal(bfloatToNumber(numberToBfloat(Math.PI)), 3.140625);
});
