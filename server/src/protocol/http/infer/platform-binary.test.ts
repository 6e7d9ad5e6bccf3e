import assert from "node:assert/strict";
import { test } from "node:test";
import type { HttpCall } from "../http-call.ts";
import { headerLengthOf } from "./platform-binary.ts";

const TYPE = "application/vnd.sagemaker-triton.binary+json";
const call = (contentType: string | undefined): HttpCall => ({ header: () => contentType }) as unknown as HttpCall;
const lengthOf = (text: string): string | undefined => headerLengthOf(call(`${TYPE};json-header-size=${text}`), TYPE);

test("headerLengthOf() reads numbers of 32 bits, and refuses others", () => {
  assert.equal(headerLengthOf(call(undefined), TYPE), undefined);
  assert.equal(headerLengthOf(call("application/json"), TYPE), undefined);
  for (const text of ["0", "2147483647", "-1"]) assert.equal(lengthOf(text), text);
  for (const text of ["2147483648", "-2147483648", "99999999999999999999"]) {
    assert.throws(() => lengthOf(text), /out of range/, text);
  }
  for (const text of ["", "x", "NaN"]) assert.throws(() => lengthOf(text), /Unable to parse/, text);
});

test("headerLengthOf() refuses a type that only contains the prefix", () => {
  assert.throws(() => headerLengthOf(call(`x;${TYPE};json-header-size=1`), TYPE), /starts with/);
});
