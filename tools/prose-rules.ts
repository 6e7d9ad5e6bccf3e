/**
 * Measures the sentences of Markdown pages: words a sentence, and first words that hide the subject. Code blocks, tables,
 * link targets and HTML are left out; code in backticks is one word. Blocks are those of CommonMark 0.31, sections 4 and 5.
 * Reads no file.
 */
import { type Line, linesOutsideFences } from "./markdown-links.ts";

export interface Sentence {
  readonly line: number;
  readonly text: string;
  readonly numWords: number;
  /** Headings count for openings, not for lengths. */
  readonly isHeading: boolean;
}

export interface ProseSummary {
  readonly numSentences: number;
  readonly medianWords: number;
  readonly p90Words: number;
}

/** The aim: longer texts are refused by `npm run prose`. */
export const MAX_MEDIAN_WORDS = 14;
export const MAX_P90_WORDS = 25;
/** A shorter piece is a label, such as "Why." in bold: it says nothing about the length of sentences. */
const MIN_SENTENCE_WORDS = 3;

const ODD_OPENING = /^[^\p{L}`]*(?:What|Of|Where|Whoever|Those|Who)\b/u;
const IS_TABLE_ROW = /^\s*\|/;
const IS_HEADING = /^#{1,6}\s/;
const STARTS_BLOCK = /^\s*(?:[-*+]|\d+[.)])\s+/;
const IS_LINK_DEFINITION = /^\s*\[[^\]]+\]:\s/;
const ABBREVIATION = /(?:^|[\s(])(?:e\.g|i\.e|cf|vs|No|approx|Inc|al)\.$/;

/** All sentences of a page, in order; `line` is where the block of the sentence begins. */
export function sentencesIn(page: string): readonly Sentence[] {
  return blocksOf(linesOutsideFences(withoutHtmlComments(page))).flatMap((block) => {
    const isHeading = IS_HEADING.test(block.text);
    const text = plainText(block.text.replace(/^#{1,6}\s+/, ""));
    return split(text).map((sentence) => ({
      line: block.number,
      text: sentence,
      numWords: countWords(sentence),
      isHeading,
    }));
  });
}

/** Whether a statement opens with a word that hides its subject: What, Of, Where, Whoever, Those, Who. Questions may. */
export function isOddOpening(sentence: Sentence): boolean {
  return ODD_OPENING.test(sentence.text) && !/\?["')\]]*$/.test(sentence.text);
}

export function countedSentences(sentences: readonly Sentence[]): readonly Sentence[] {
  return sentences.filter(({ numWords, isHeading }) => !isHeading && numWords >= MIN_SENTENCE_WORDS);
}

/** Nearest-rank percentiles over the sentences that count. */
export function summarize(sentences: readonly Sentence[]): ProseSummary {
  const lengths = countedSentences(sentences)
    .map(({ numWords }) => numWords)
    .sort((a, b) => a - b);
  const at = (share: number): number => lengths[Math.max(0, Math.ceil(share * lengths.length) - 1)] ?? 0;
  return { numSentences: lengths.length, medianWords: at(0.5), p90Words: at(0.9) };
}

/** One text for each part of the aim that is missed. */
export function proseProblems(pages: ReadonlyMap<string, readonly Sentence[]>): readonly string[] {
  const { medianWords, p90Words } = summarize([...pages.values()].flat());
  const odd = [...pages].flatMap(([page, sentences]) =>
    sentences.filter(isOddOpening).map(({ line, text }) => `${page}:${line}: odd opening: ${text.slice(0, 80)}`),
  );
  return [
    ...(medianWords > MAX_MEDIAN_WORDS ? [`median ${medianWords} words a sentence, at most ${MAX_MEDIAN_WORDS}`] : []),
    ...(p90Words > MAX_P90_WORDS ? [`90th percentile ${p90Words} words a sentence, at most ${MAX_P90_WORDS}`] : []),
    ...odd,
  ];
}

/** Paragraphs, list items and headings, each on one line. */
function blocksOf(lines: readonly Line[]): readonly Line[] {
  const blocks: { number: number; text: string }[] = [];
  let isOpen = false;
  let previous = 0;
  for (const { number, text } of lines) {
    const isText = text.trim() !== "" && !IS_TABLE_ROW.test(text) && !IS_LINK_DEFINITION.test(text);
    const isStart = STARTS_BLOCK.test(text) || IS_HEADING.test(text);
    const last = blocks.at(-1);
    if (!isText) isOpen = false;
    else if (isOpen && !isStart && number === previous + 1 && last !== undefined) last.text += ` ${text.trim()}`;
    else {
      blocks.push({
        number,
        text: text
          .replace(STARTS_BLOCK, "")
          .replace(/^\s*>\s?/, "")
          .trim(),
      });
      isOpen = !IS_HEADING.test(text);
    }
    previous = number;
  }
  return blocks;
}

/** Keeps line numbers. */
function withoutHtmlComments(page: string): string {
  return page.replace(/<!--[\s\S]*?-->/g, (comment) => comment.replace(/[^\n]/g, ""));
}

/** Images go, links keep their text, code becomes one word, tags and emphasis go. */
function plainText(text: string): string {
  return text
    .replace(
      /(`+)(.+?)\1(?!`)/g,
      (_, __, code: string) =>
        `\`${code
          .trim()
          .replace(/\s+/g, "_")
          .replace(/[.!?]+$/, "")}\``,
    )
    .replace(/!\[[^\]]*\]\([^)]*\)/g, "")
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/\[([^\]]*)\]\[[^\]]*\]/g, "$1")
    .replace(/<\/?[a-z][^>]*>/gi, "")
    .replace(/\*{1,3}/g, "")
    .trim();
}

/** A sentence ends with a full stop, question mark or exclamation mark before a space and a new beginning. */
function split(text: string): readonly string[] {
  const sentences: string[] = [];
  let start = 0;
  for (const match of text.matchAll(/[.!?]+["')\]]*(?=\s+["'([]*[\p{Lu}\d`])/gu)) {
    const end = match.index + match[0].length;
    const sentence = text.slice(start, end).trim();
    if (ABBREVIATION.test(sentence)) continue;
    sentences.push(sentence);
    start = end;
  }
  const rest = text.slice(start).trim();
  return rest === "" ? sentences : [...sentences, rest];
}

function countWords(sentence: string): number {
  return sentence.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
}
