import assert from "node:assert/strict";
import { test } from "node:test";
import { JsonValueScanner } from "./json-value-scanner.ts";
import { TextCursor } from "./text-cursor.ts";

/** The value, cut in two at each place, and the text behind it. */
function readings(text: string): ReadonlySet<string> {
  const found = new Set<string>();
  for (let at = 0; at <= text.length; at++) {
    const cursor = new TextCursor();
    const scanner = new JsonValueScanner();
    cursor.append(text.slice(0, at));
    let value = scanner.take(cursor);
    cursor.append(text.slice(at));
    value += scanner.take(cursor);
    found.add(`${value}|${cursor.rest}`);
  }
  return found;
}

const CASES: readonly (readonly [text: string, value: string, rest: string])[] = [
  ['{"a": [1, "}"]} x', '{"a": [1, "}"]}', " x"],
  ['"a\\"b" c', '"a\\"b"', " c"],
  ["12, 3", "12", ", 3"],
  ['{"a": "x\ny\t"}', '{"a": "x\\ny\\t"}', ""],
  ['{"a": "\u0000\u001f"}', '{"a": "\\u0000\\u001f"}', ""],
  ['{"a": "\\\n"}', '{"a": "\\n"}', ""],
  ['{\n\t"a": 1}', '{\n\t"a": 1}', ""],
];

for (const [text, value, rest] of CASES) {
  test(`JsonValueScanner reads ${JSON.stringify(text)} as ${value}, however it is cut`, () => {
    assert.deepEqual([...readings(text)], [`${value}|${rest}`]);
  });
}
