import assert from "node:assert/strict";
import { test } from "node:test";
import { StopScan } from "./stop-scan.ts";

for (const [words, pieces, expected] of [
  [["stop"], ["one stop two"], ["one stop"]],
  [["stop"], ["one st", "op two", " three"], ["one st", "op", ""]],
  [["stop"], ["s", "t", "o", "p", "!"], ["s", "t", "o", "p", ""]],
  [["stop"], ["sto", "stop"], ["sto", "stop"]],
  [["two", "one"], ["one two"], ["one"]],
  [["aab"], ["aa", "aab"], ["aa", "aab"]],
  [["x", ""], ["abc"], ["abc"]],
  [[""], ["abc"], ["abc"]],
  [[], ["abc", "def"], ["abc", "def"]],
  [["é"], ["caf", "é au lait"], ["caf", "é"]],
] as const) {
  test(`push() ends [${pieces.join("|")}] at ${JSON.stringify(words)}`, () => {
    const scan = new StopScan(words);
    assert.deepEqual(
      pieces.map((piece) => scan.push(piece)),
      expected,
    );
    assert.equal(
      scan.isOver,
      expected.join("") !== pieces.join("") || words.some((w) => w !== "" && pieces.join("").endsWith(w)),
    );
  });
}
