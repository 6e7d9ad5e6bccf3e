import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeUtf8, encodeUtf8 } from "../utf8.ts";
import { writeTensorData } from "./tensor-writer.ts";
import { JsonWriter } from "./writer.ts";

function written(write: (writer: JsonWriter) => void): string {
  const writer = new JsonWriter();
  writer.begin();
  write(writer);
  const bytes = writer.finish();
  return decodeUtf8(bytes, 0, bytes.length);
}

/** Digits as RapidJSON 1.1 writes them, by its own code. */
const DOUBLES: readonly (readonly [number, string])[] = [
  [Math.fround(0.1), "0.10000000149011612"],
  [Math.fround(0.056107015), "0.056107014417648318"],
  [Math.fround(3.4028235e38), "3.4028234663852887e38"],
  [Math.fround(1e21), "1.0000000200408774e21"],
  [Math.fround(1e-10), "1.000000013351432e-10"],
  [Math.fround(1e-45), "1.401298464324817e-45"],
  [Math.fround(123456789), "123456792.0"],
  [Math.fround(0.0001), "0.00009999999747378752"],
  [-8.25, "-8.25"],
  [-0, "-0.0"],
  [0, "0.0"],
  [0.1, "0.1"],
  [5, "5.0"],
  [2_147_483_648, "2147483648.0"],
  [1e20, "100000000000000000000.0"],
  [1e21, "1e21"],
  [1e-6, "0.000001"],
  [1e-7, "1e-7"],
  [-1.5e-300, "-1.5e-300"],
  [5e-324, "5e-324"],
  [2.2250738585072014e-308, "2.2250738585072014e-308"],
  [1.7976931348623157e308, "1.7976931348623157e308"],
  [Number.NaN, "NaN"],
  [Number.POSITIVE_INFINITY, "Infinity"],
  [Number.NEGATIVE_INFINITY, "-Infinity"],
];
for (const [value, text] of DOUBLES) {
  test(`double() writes ${value} as ${text}`, () => {
    assert.equal(
      written((writer) => writer.double(value)),
      text,
    );
  });
}

test("double() writes digits that name the same number, over the whole range", () => {
  const bits = new BigUint64Array(1);
  const double = new Float64Array(bits.buffer);
  for (let i = 0; i < 20_000; i++) {
    bits[0] = (BigInt(i) * 0x9e3779b97f4a7c15n) % 0x7ff0000000000000n;
    const value = double[0] ?? 0;
    const text = written((writer) => writer.double(value));
    assert.ok(Object.is(Number(text), value), `${value} became ${text}`);
    assert.ok(text.length <= String(value).length + 2, `${value} became ${text}`);
  }
});

test("integer() and integer64() write every digit", () => {
  for (const value of [0, 7, -7, 10, 2147483647, -2147483648, 4294967295, 9007199254740991, -9007199254740991]) {
    assert.equal(
      written((writer) => writer.integer(value)),
      String(value),
    );
  }
  assert.equal(
    written((writer) => writer.integer64(0xffffffff, 0x7fffffff, false)),
    "9223372036854775807",
  );
  assert.equal(
    written((writer) => writer.integer64(0, 0x80000000, false)),
    "-9223372036854775808",
  );
  assert.equal(
    written((writer) => writer.integer64(0xffffffff, 0xffffffff, true)),
    "18446744073709551615",
  );
  assert.equal(
    written((writer) => writer.integer64(0xffffffff, 0xffffffff, false)),
    "-1",
  );
});

test("string() escapes what JSON asks for and nothing else", () => {
  const text = 'a"b\\c/\n\r\t\b\f\u0001\u001fżółć 😀';
  const json = written((writer) => writer.string(text));
  assert.equal(json, '"a\\"b\\\\c/\\n\\r\\t\\b\\f\\u0001\\u001Fżółć 😀"');
  assert.equal(JSON.parse(json), text);
});

test("stringBytes() passes bytes that are no UTF-8 as they are", () => {
  const writer = new JsonWriter();
  writer.begin();
  writer.stringBytes(Uint8Array.of(0xff, 0x41, 0xc3), 0, 3);
  assert.deepEqual([...writer.finish()], [0x22, 0xff, 0x41, 0xc3, 0x22]);
});

test("begin() leaves the text before untouched, also when the block is full", () => {
  const writer = new JsonWriter();
  const texts: Uint8Array[] = [];
  for (let i = 0; i < 100; i++) {
    writer.begin();
    writer.string(`${i}`.repeat(1000));
    texts.push(writer.finish());
  }
  texts.forEach((bytes, i) => {
    assert.equal(decodeUtf8(bytes, 0, bytes.length), `"${`${i}`.repeat(1000)}"`);
  });
});

test("writeTensorData() writes strings, and pauses when there are many elements", () => {
  const data = encodeUtf8("\u0002\0\0\0ab\0\0\0\0\u0001\0\0\0c");
  assert.equal(
    written((writer) => [...writeTensorData(writer, "BYTES", data, 3)]),
    '"ab","","c"',
  );
  const many = new Uint8Array(40_000);
  const writer = new JsonWriter();
  writer.begin();
  const pauses = [...writeTensorData(writer, "UINT8", many, 40_000)];
  assert.equal(pauses.length, 2);
  assert.equal(writer.size, 79_999);
});
