/**
 * Prints the median and 90th percentile of words a sentence over all Markdown pages, and over the comments of all sources, and
 * the longest sentences of pages. Fails when pages or comments miss the aim, or when a sentence has an odd opening. `npm run prose`; with names of pages and
 * sources only those; with `--quiet` only the problems.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { countedSentences, proseProblems, type Sentence, sentencesIn, summarize } from "./prose-rules.ts";
import { commentsIn } from "./source-comments.ts";

const NUM_LONGEST = 25;
const IS_GENERATED = /\/gen\//;

const names = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
const pages = new Map(filesLike("*.md").map((path) => [path, sentencesIn(readFileSync(path, "utf8"))] as const));
const sources = filesLike("*.ts", "*.mjs", "*.cjs", "*.cu", "*.cuh", "*.py").filter((path) => !IS_GENERATED.test(path));
const isBroken = names.length === 0 && (pages.size === 0 || sources.length === 0);
const comments = new Map(sources.map((path) => [path, commentSentences(path)] as const));
const problems = isBroken
  ? ["no files found: the check itself is broken"]
  : [...proseProblems(pages), ...proseProblems(comments).map((problem) => `comments: ${problem}`)];
if (!process.argv.includes("--quiet")) process.stdout.write(`${report(pages)}${commentReport(comments)}\n`);
for (const problem of problems) process.stderr.write(`${problem}\n`);
process.exitCode = problems.length === 0 ? 0 : 1;

function filesLike(...patterns: readonly string[]): readonly string[] {
  const options = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ...patterns];
  return execFileSync("git", options, { encoding: "utf8", maxBuffer: 2 ** 26 })
    .split("\0")
    .filter((path) => path !== "" && existsSync(path))
    .filter((path) => names.length === 0 || names.some((name) => path.startsWith(name)));
}

/** The sentences of a source's comments, with the line on which each comment begins. */
function commentSentences(path: string): readonly Sentence[] {
  return commentsIn(path, readFileSync(path, "utf8")).flatMap(({ line, text }) =>
    sentencesIn(text).map((sentence) => ({ ...sentence, line, isHeading: false })),
  );
}

function commentReport(sentencesBySource: ReadonlyMap<string, readonly Sentence[]>): string {
  const { numSentences, medianWords, p90Words } = summarize([...sentencesBySource.values()].flat());
  return `comments: ${numSentences} sentences: median ${medianWords} words, 90th percentile ${p90Words}`;
}

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
