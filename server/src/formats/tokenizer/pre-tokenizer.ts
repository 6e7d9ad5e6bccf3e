/**
 * Splits text into words for byte-level BPE, by the `pre_tokenizer` section of tokenizer.json. Source: tokenizers
 * library, `pre_tokenizers`. Knows no vocabulary. Unsupported sections give undefined: the caller falls back to the
 * general library.
 */

import { isObject } from "../../core/json-object.ts";
import { translatePattern } from "./tokenizer-library.ts";

/** One pass: the matches of a pattern and the text between them, either of which may be dropped. */
export interface SplitPass {
  readonly pattern: RegExp;
  readonly keepsMatches: boolean;
  readonly keepsGaps: boolean;
}

export interface PreTokenizer {
  readonly passes: readonly SplitPass[];
  /** Adds a space before text that does not begin with one. */
  readonly addsPrefixSpace: boolean;
}

/** The pattern of GPT-2. White space is Unicode's property: JavaScript's `\s` differs from it in U+0085 and U+FEFF. */
const GPT2_PATTERN =
  /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;

export function tryParsePreTokenizer(section: unknown): PreTokenizer | undefined {
  const parts = flatten(section);
  const last = parts.at(-1);
  if (last === undefined || last.type !== "ByteLevel") return undefined;
  const passes: SplitPass[] = [];
  for (const part of parts.slice(0, -1)) {
    const pass = tryParsePass(part);
    if (pass === undefined) return undefined;
    passes.push(pass);
  }
  const addsPrefixSpace = last.add_prefix_space === true;
  // A prefix space per piece of an earlier pass: no known tokenizer does that.
  if (addsPrefixSpace && passes.length > 0) return undefined;
  if (last.use_regex !== false) passes.push({ pattern: GPT2_PATTERN, keepsMatches: true, keepsGaps: true });
  return { passes, addsPrefixSpace };
}

/** Appends the words of `text` by the passes from `first` on. */
export function splitInto(words: string[], text: string, passes: readonly SplitPass[], first: number): void {
  const pass = passes[first];
  if (pass === undefined) {
    if (text !== "") words.push(text);
    return;
  }
  let position = 0;
  while (position < text.length) position = splitNext(words, text, passes, first, position);
}

/** Handles one match of pass `first` and the gap before it; returns the position after both. */
export function splitNext(
  words: string[],
  text: string,
  passes: readonly SplitPass[],
  first: number,
  position: number,
): number {
  const pass = passes[first];
  if (pass === undefined) {
    words.push(text.slice(position));
    return text.length;
  }
  const match = nextMatch(pass.pattern, text, position);
  const start = match?.index ?? text.length;
  const end = match === undefined ? text.length : start + match[0].length;
  if (pass.keepsGaps && start > position) splitInto(words, text.slice(position, start), passes, first + 1);
  if (pass.keepsMatches && end > start) splitInto(words, text.slice(start, end), passes, first + 1);
  return end;
}

/** The next non-empty match. The position is set each time, because interleaved runs share patterns. */
function nextMatch(pattern: RegExp, text: string, position: number): RegExpExecArray | undefined {
  pattern.lastIndex = position;
  for (;;) {
    const match = pattern.exec(text);
    if (match === null) return undefined;
    if (match[0] !== "") return match;
    pattern.lastIndex++;
  }
}

function flatten(section: unknown): readonly Record<string, unknown>[] {
  if (!isObject(section)) return [];
  if (section.type !== "Sequence") return [section];
  const parts = section.pretokenizers;
  return Array.isArray(parts) ? parts.flatMap(flatten) : [];
}

function tryParsePass(part: Record<string, unknown>): SplitPass | undefined {
  if (part.type === "Digits") {
    return {
      pattern: part.individual_digits === true ? /\p{N}/gu : /\p{N}+/gu,
      keepsMatches: true,
      keepsGaps: true,
    };
  }
  const behavior = part.behavior;
  if (part.type !== "Split" || (behavior !== "Isolated" && behavior !== "Removed")) return undefined;
  const pattern = translatePattern(part.pattern);
  if (pattern === undefined) return undefined;
  const keepsDelimiters = behavior === "Isolated";
  const isInverted = part.invert === true;
  return {
    pattern,
    keepsMatches: isInverted || keepsDelimiters,
    keepsGaps: !isInverted || keepsDelimiters,
  };
}
