import assert from "node:assert/strict";
import { test } from "node:test";
import { expectLightgbmText } from "./lightgbm-text.ts";

const TREES = ["Tree=0\nnum_leaves=2\n\n", "Tree=1\nnum_leaves=3\n\n\n"];
const HEADER = `tree\nversion=v4\nnum_class=1\ntree_sizes=${TREES.map(({ length }) => length).join(" ")}\n\n`;
const MODEL = `${HEADER}${TREES.join("")}end of trees\n`;

test("expectLightgbmText() accepts whole models, and those without sizes or trees", () => {
  for (const text of [MODEL, MODEL.replace(/tree_sizes.*\n/, ""), "tree\nversion=v4\n"]) {
    expectLightgbmText(Buffer.from(text));
  }
});

for (const [what, text, message] of [
  [
    "another file",
    "PK\u0003\u0004",
    /LightGBM: the file is cut off or no model: expected the first line 'tree', got 'PK/,
  ],
  ["a text that ends in a tree", MODEL.slice(0, -20), /expected 'end of trees' at byte \d+ of \d+/],
  [
    "a tree of another size",
    MODEL.replace("num_leaves=2", "num_leaves=12"),
    /expected 'Tree=1' at byte \d+ of \d+, got/,
  ],
] as const) {
  test(`expectLightgbmText() refuses ${what}`, () => {
    assert.throws(() => expectLightgbmText(Buffer.from(text)), message);
  });
}
