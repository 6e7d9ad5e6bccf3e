import assert from "node:assert/strict";
import { test } from "node:test";
import { StopScan } from "./stop-scan.ts";

/** All text that comes out, and whether a stop ended it, for every way to cut the text in two. */
function scan(text: string, stops: readonly string[], includesStop = false): Set<string> {
  const outcomes = new Set<string>();
  for (let at = 0; at <= text.length; at++) {
    const scanner = new StopScan(stops, includesStop);
    let out = "";
    let isStopped = false;
    for (const piece of [text.slice(0, at), text.slice(at)]) {
      if (isStopped) break;
      const scanned = scanner.push(piece);
      out += scanned.text;
      isStopped = scanned.isStopped;
    }
    if (!isStopped) out += scanner.end();
    outcomes.add(`${out}|${isStopped}`);
  }
  return outcomes;
}

const CASES: readonly (readonly [text: string, stops: readonly string[], out: string])[] = [
  ["one two three", ["two"], "one |true"],
  ["one two three", ["four"], "one two three|false"],
  ["aab", ["ab"], "a|true"],
  ["abcd", ["cd", "bc"], "a|true"],
  ["ends with par", ["part"], "ends with par|false"],
  ["no stops", [""], "no stops|false"],
];

for (const [text, stops, out] of CASES) {
  test(`StopScan gives '${out}' for '${text}' with ${JSON.stringify(stops)}, however it is cut`, () => {
    assert.deepEqual([...scan(text, stops)], [out]);
  });
}

test("StopScan leaves the stop in the text when asked to", () => {
  assert.deepEqual([...scan("one two three", ["two"], true)], ["one two|true"]);
});
