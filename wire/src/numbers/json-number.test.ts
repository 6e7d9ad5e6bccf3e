import assert from "node:assert/strict";
import { test } from "node:test";
import { JsonSyntaxError } from "../json/error.ts";
import { encodeUtf8 } from "../utf8.ts";
import { JsonNumber } from "./json-number.ts";

function read(text: string): JsonNumber {
  const number = new JsonNumber();
  number.read(encodeUtf8(text), 0);
  return number;
}

const DOUBLES = [
  "0.1",
  "-0.0",
  "1e22",
  "1e23",
  "123456789012345678",
  "0.10000000149011612",
  "9007199254740993.0",
  "5e-324",
  "1.7976931348623157e308",
  "0.000000000000000000000000000001",
  "1234567890123456789012345.678",
  "12345678901234567890123e-30",
];

for (const text of DOUBLES) {
  test(`read() gives the nearest double of ${text}`, () => {
    assert.ok(Object.is(read(text).toDouble(), Number(text)));
  });
  test(`toFloat() of ${text} rounds to the float that the exact value rounds to`, () => {
    assert.ok(Object.is(Math.fround(read(text).toFloat()), Math.fround(Number(text))));
  });
}

test("toFloat() is exact next to the middle of two floats", () => {
  const middle = 1 + 2 ** -24;
  for (const text of ["1.00000005960464477539", "1.000000059604644775", "1.0000000596046449", String(middle)]) {
    assert.equal(Math.fround(read(text).toFloat()), Math.fround(Number(text)), text);
  }
});

const SPECIAL: [string, number][] = [
  ["NaN", Number.NaN],
  ["Infinity", Number.POSITIVE_INFINITY],
  ["Inf", Number.POSITIVE_INFINITY],
  ["-Inf", Number.NEGATIVE_INFINITY],
  ["-Infinity", Number.NEGATIVE_INFINITY],
];
for (const [text, value] of SPECIAL) {
  test(`read() takes ${text}`, () => {
    const number = read(text);
    assert.equal(number.toDouble(), value);
    assert.equal(number.end, text.length);
  });
}

const BAD: [string, string][] = [
  ["-", "Invalid value. at 1"],
  ["1.", "Miss fraction part in number. at 2"],
  ["1e", "Miss exponent in number. at 2"],
  ["1e+", "Miss exponent in number. at 3"],
  ["1e400", "Number too big to be stored in double. at 0"],
  ["9".repeat(400), "Number too big to be stored in double. at 0"],
  ["Nan", "Invalid value. at 2"],
  ["Infinite", "Invalid value. at 7"],
];
for (const [text, message] of BAD) {
  test(`read() refuses ${text.slice(0, 12)}`, () => {
    assert.throws(
      () => read(text),
      (error) => error instanceof JsonSyntaxError && error.message === message,
    );
  });
}

const RANGES: [string, boolean, boolean][] = [
  ["0", true, true],
  ["-0", true, true],
  ["-1", true, false],
  ["9223372036854775807", true, true],
  ["9223372036854775808", false, true],
  ["-9223372036854775808", true, false],
  ["-9223372036854775809", false, false],
  ["18446744073709551615", false, true],
  ["18446744073709551616", false, false],
  ["100000000000000000000000", false, false],
  ["1.0", false, false],
];
for (const [text, isSigned, isUnsigned] of RANGES) {
  test(`isInt64() and isUint64() know the range of ${text}`, () => {
    const number = read(text);
    assert.deepEqual([number.isInt64(), number.isUint64()], [isSigned, isUnsigned]);
  });
}

const NINES = "9".repeat(200_000);
const OVERFLOWS = [
  NINES,
  `-${NINES}`,
  `${NINES}.5`,
  `1e${NINES}`,
  `1${"0".repeat(309)}`,
  "1e309",
  "0.1e310",
  `0e${NINES}`,
];
for (const text of OVERFLOWS) {
  test(`read() refuses ${text.slice(0, 8)} of ${text.length} characters as too big`, () => {
    assert.throws(() => read(text), /too big/);
  });
}

test("read() takes what is long but no larger than the largest double", () => {
  const texts = [`1${"0".repeat(308)}`, `0.${NINES}`, `1e-${NINES}`, "0.1e309"];
  for (const text of texts) assert.equal(read(text).toDouble(), Number(text), text.slice(0, 8));
});

/** The bits as RapidJSON 1.1 gives them, by its own code. */
const NORMAL_PRECISION: readonly (readonly [string, number])[] = [
  ["0.1", 0.1],
  ["1.7976931348623157e308", 1.7976931348623157e308],
  ["2.2250738585072014e-308", 2.2250738585072014e-308],
  ["5e-324", 5e-324],
  ["0.30000000000000004", 0.30000000000000004],
  ["123456789012345678901234567890", 123456789012345660000000000000],
  ["2e308", Number.POSITIVE_INFINITY],
  ["-0", 0],
  ["-0.0", -0],
];
for (const [text, value] of NORMAL_PRECISION) {
  test(`toNormalPrecision() reads ${text} as RapidJSON does`, () => {
    assert.ok(Object.is(read(text).toNormalPrecision(), value), String(read(text).toNormalPrecision()));
  });
}
