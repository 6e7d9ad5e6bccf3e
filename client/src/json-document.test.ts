import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeJson, type JsonData, parseJson, parseJsonRecord } from "./json-document.ts";

const documents: [text: string, value: JsonData][] = [
  ['{"a":[1,-2,0.5,"é\\n",true,false,null],"b":{}}', { a: [1, -2, 0.5, "é\n", true, false, null], b: {} }],
  ["[9007199254740993,-9223372036854775808,18446744073709551615]", [9007199254740993n, -(2n ** 63n), 2n ** 64n - 1n]],
  ["9007199254740991", 9007199254740991],
  ["1e-07", 1e-7],
];
for (const [text, value] of documents) {
  test(`parseJson() and encodeJson() keep ${text}`, () => {
    assert.deepEqual(parseJson(Buffer.from(text), "x"), value);
    assert.deepEqual(parseJson(encodeJson(value), "x"), value);
  });
}

test("encodeJson() leaves out members that are undefined", () => {
  assert.equal(Buffer.from(encodeJson({ a: undefined, b: 1, c: undefined })).toString(), '{"b":1}');
});

test("parseJson() lets no key reach a prototype", () => {
  const value = parseJsonRecord(Buffer.from('{"__proto__":{"polluted":1},"constructor":2}'), "x");
  assert.equal(Object.getPrototypeOf(value), Object.prototype);
  assert.deepEqual(Object.keys(value), ["__proto__", "constructor"]);
  assert.equal(({} as Record<string, unknown>).polluted, undefined);
});

for (const text of ["", "{", "<html>", "[".repeat(200), '{"a":1}x']) {
  test(`parseJson() refuses ${JSON.stringify(text.slice(0, 10))}`, () => {
    assert.throws(() => parseJson(Buffer.from(text), "GET /x"), {
      kind: "protocol",
      message: /^GET \/x: expected JSON/,
    });
  });
}

test("parseJsonRecord() refuses what is no object", () => {
  assert.throws(() => parseJsonRecord(Buffer.from("[]"), "x"), { kind: "protocol", message: /JSON object/ });
});
