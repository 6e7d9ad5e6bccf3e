import assert from "node:assert/strict";
import { test } from "node:test";
import { FastInteger } from "./fast-integer.ts";

function read(text: string, isSigned: boolean): { value: number; end: number } | undefined {
  const integer = new FastInteger();
  const bytes = new TextEncoder().encode(` ${text}`);
  return integer.read(bytes, 1, isSigned) ? { value: integer.value, end: integer.end - 1 } : undefined;
}

test("`read()` takes up to nine digits before a comma or the end of an array", () => {
  for (const text of ["0", "7", "10", "123456789", "999999999"]) {
    const taken = { value: Number(text), end: text.length };
    assert.deepEqual([read(`${text},`, false), read(`${text}]`, true)], [taken, taken], text);
  }
});

test("`read()` takes a minus where the datatype has one", () => {
  assert.deepEqual(read("-42]", true), { value: -42, end: 3 });
  assert.equal(read("-42]", false), undefined);
});

test("`read()` leaves what is not as usual", () => {
  const texts = [
    "",
    "-",
    "-,",
    ",",
    "]",
    "+1,",
    "1",
    "1 ,",
    "1.0,",
    "1e3,",
    "01,",
    "-01,",
    "1234567890,",
    "1}",
    "NaN,",
    "1-,",
  ];
  for (const text of texts) assert.equal(read(text, true), undefined, text);
});
