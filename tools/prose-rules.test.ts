import assert from "node:assert/strict";
import { test } from "node:test";
import { isOddOpening, proseProblems, sentencesIn, summarize } from "./prose-rules.ts";

const PAGE = `# What is here

One sentence over
two lines. Is this another one? Yes, e.g. [with a link](https://example.org/a.b?c=d).

<!-- A comment is
left out. -->

| a table | is left out. |
| --- | --- |

- **Label.** An item with \`code. Of several words\` in it.
- ![image](a.png) Version 1.5 of it ends here. \`x\` starts a sentence.
1. Numbered.

\`\`\`sh
echo Those lines are code.
\`\`\`
`;

test("sentencesIn() finds the sentences of headings, paragraphs and list items, and no others", () => {
  assert.deepEqual(
    sentencesIn(PAGE).map(({ line, numWords, text }) => `${line} ${numWords} ${text}`),
    [
      "1 3 What is here",
      "3 5 One sentence over two lines.",
      "3 4 Is this another one?",
      "3 5 Yes, e.g. with a link.",
      "12 1 Label.",
      "12 6 An item with `code._Of_several_words` in it.",
      "13 6 Version 1.5 of it ends here.",
      "13 4 `x` starts a sentence.",
      "14 1 Numbered.",
    ],
  );
});

for (const [text, isOdd] of [
  ["What it does is said here.", true],
  ["**Whom** it serves.", false],
  ["- **What it shows.** Nothing.", true],
  ["Of all of them one is left.", true],
  ["(Those who read this.)", true],
  ["What does it do?", false],
  ["Whatever it does.", false],
  ["Offline it works.", false],
  ["## Where it is", true],
  ["`What` is a name.", false],
] as const) {
  test(`isOddOpening() is ${isOdd} for ${JSON.stringify(text)}`, () => {
    const [first] = sentencesIn(text);
    assert.equal(first !== undefined && isOddOpening(first), isOdd);
  });
}

test("summarize() leaves labels and headings out, and takes nearest ranks", () => {
  const words = (count: number) => `${Array.from({ length: count }, () => "Word").join(" ")}.`;
  const page = `# ${words(40)}\n\n**Why.** ${[3, 4, 5, 6, 7, 8, 9, 10, 11, 30].map(words).join(" ")}`;
  assert.deepEqual(summarize(sentencesIn(page)), { numSentences: 10, medianWords: 7, p90Words: 11 });
});

test("proseProblems() names each part of the aim that is missed", () => {
  const long = `${Array.from({ length: 26 }, () => "word").join(" ")}.`;
  assert.deepEqual(proseProblems(new Map([["a.md", sentencesIn(`Of ${long}`)]])), [
    "median 27 words a sentence, at most 14",
    "90th percentile 27 words a sentence, at most 25",
    `a.md:1: odd opening: ${`Of ${long}`.slice(0, 80)}`,
  ]);
  assert.deepEqual(proseProblems(new Map([["a.md", sentencesIn("Short is good here.")]])), []);
});
