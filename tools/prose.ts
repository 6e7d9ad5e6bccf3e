/**
 * Prints the median and 90th percentile of words a sentence over all Markdown pages, the longest sentences, and every odd
 * opening; fails when the aim is missed. `npm run prose`; with page names only those; with `--quiet` only what is missed.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { countedSentences, proseProblems, type Sentence, sentencesIn, summarize } from "./prose-rules.ts";

const NUM_LONGEST = 25;

const names = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
const list = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.md"], {
  encoding: "utf8",
});
const files = list
  .split("\0")
  .filter((path) => path !== "" && existsSync(path))
  .filter((path) => names.length === 0 || names.some((name) => path.startsWith(name)));
const pages = new Map(files.map((path) => [path, sentencesIn(readFileSync(path, "utf8"))] as const));
if (!process.argv.includes("--quiet")) process.stdout.write(report(pages));
const problems = pages.size === 0 ? ["no pages found: the check itself is broken"] : proseProblems(pages);
for (const problem of problems) process.stderr.write(`${problem}\n`);
process.exitCode = problems.length === 0 ? 0 : 1;

function report(sentencesByPage: ReadonlyMap<string, readonly Sentence[]>): string {
  const longest = [...sentencesByPage]
    .flatMap(([page, sentences]) => countedSentences(sentences).map((sentence) => ({ page, ...sentence })))
    .sort((a, b) => b.numWords - a.numWords)
    .slice(0, NUM_LONGEST);
  const worst = [...sentencesByPage]
    .map(([page, sentences]) => ({ page, ...summarize(sentences) }))
    .sort((a, b) => b.p90Words - a.p90Words || b.medianWords - a.medianWords)
    .slice(0, NUM_LONGEST);
  const { numSentences, medianWords, p90Words } = summarize([...sentencesByPage.values()].flat());
  return [
    `${sentencesByPage.size} pages, ${numSentences} sentences: median ${medianWords} words, 90th percentile ${p90Words}`,
    "",
    "longest sentences:",
    ...longest.map(({ page, line, numWords, text }) => `${numWords} ${page}:${line}: ${text.slice(0, 100)}`),
    "",
    "pages with the longest sentences (90th percentile, median):",
    ...worst.map(({ page, p90Words: p90, medianWords: median }) => `${p90} ${median} ${page}`),
    "",
  ].join("\n");
}
