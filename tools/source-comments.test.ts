import assert from "node:assert/strict";
import { test } from "node:test";
import { commentsIn } from "./source-comments.ts";

const TYPESCRIPT = `/** One
 * two. */
const url = "https://example.org"; // three
// four
// five

/* six */ call();
`;

test("commentsIn() finds blocks and lines of TypeScript, and joins lines that follow each other", () => {
  assert.deepEqual(commentsIn("a.ts", TYPESCRIPT), [
    { line: 1, text: "One\ntwo." },
    { line: 7, text: "six" },
    { line: 3, text: "three" },
    { line: 4, text: "four\nfive" },
  ]);
});

test("commentsIn() finds docstrings and lines of Python", () => {
  assert.deepEqual(commentsIn("a.py", '"""One."""\nx = 1  # two\n# three\n'), [
    { line: 1, text: "One." },
    { line: 2, text: "two" },
    { line: 3, text: "three" },
  ]);
});
