import assert from "node:assert/strict";
import { test } from "node:test";
import { linkProblems } from "./link-rules.ts";
import { anchorsOf, referencesIn } from "./markdown-links.ts";

const PAGE = `# A page

## Two words, and \`code\`!

## Again
## Again

\`\`\`bash
## no heading, [no link](nowhere.md) and no \`server/src/nothing.ts\`
\`\`\`

<a id="by-hand"></a>
`;

/** Problems of one page beside some files. */
function problemsOf(text: string, page = "docs/page.md"): readonly string[] {
  const paths = [
    "README.md",
    "server/src/core/limits.ts",
    "server/kernels/rope/rope.cu",
    "docs/other.md",
    "docs/img/a.png",
  ];
  return linkProblems({
    files: new Set([...paths, page]),
    pages: new Map([
      [page, text],
      ["docs/other.md", PAGE],
    ]),
  });
}

test("anchorsOf() makes anchors as GitHub does, and none of what is in a fence", () => {
  assert.deepEqual([...anchorsOf(PAGE)], ["a-page", "two-words-and-code", "again", "again-1", "by-hand"]);
});

test("referencesIn() finds links of every form and code, with their lines", () => {
  const page =
    'See [one](a.md), ![two](b.png "title") and `c/d.ts`.\n\n[three]: e.md\n<img src="f.svg">\n`` [x](y) ``\n';
  assert.deepEqual(
    referencesIn(page).map(({ line, kind, target }) => `${line} ${kind} ${target}`),
    ["1 link a.md", "1 link b.png", "1 path c/d.ts", "3 link e.md", "4 link f.svg", "5 path  [x](y) "],
  );
});

test("linkProblems() finds nothing in links and paths that are there", () => {
  const text = `[a](other.md) [b](other.md#again-1) [c](../README.md) [d](#here) [e](https://example.org/x) [f](../server/src/)
# Here
\`server/src/core/limits.ts\` \`server/src/\` \`core/limits.ts\` \`rope/rope.cu\` \`server/kernels/*/*.cu\` \`img/a.png\`
\`/v2/models\` \`application/json\` \`server/dist/x.js\` \`a b/c\` \`docs\``;
  assert.deepEqual(problemsOf(text), []);
});

for (const [text, problem] of [
  ["[a](gone.md)", "docs/page.md:1: the link gone.md leads to no file"],
  ["[a](/README.md)", "docs/page.md:1: the link /README.md leads to no file"],
  ["[a](other.md#gone)", "docs/page.md:1: the link other.md#gone names no heading of docs/other.md"],
  ["\n[a](#gone)", "docs/page.md:2: the link #gone names no heading of docs/page.md"],
  ["`server/src/gone.ts`", "docs/page.md:1: the path server/src/gone.ts is not there"],
  ["`core/gone.ts`", "docs/page.md:1: the path core/gone.ts is not there"],
  ["`server/src/*.py`", "docs/page.md:1: the path server/src/*.py is not there"],
] as const) {
  test(`linkProblems() finds in ${JSON.stringify(text)}: ${problem}`, () => {
    assert.deepEqual(problemsOf(text), [problem]);
  });
}
