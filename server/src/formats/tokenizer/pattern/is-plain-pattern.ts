/**
 * Decides whether a backtracking engine matches a pattern in time that is linear in the text, whatever the text (CWE-1333). Sound,
 * not complete: it knows what published tokenizers use, and says no to all else. Source: own design.
 */
import { type PatternNode, parsePattern } from "./parse-pattern.ts";

/** A loop of more steps costs as much as one without an end. */
const MAX_COUNT = 64;
const SPACE_TAIL = "\\p{White_Space}+(?!\\P{White_Space})";
/** They fail behind a loop of white space, which an alternative for white space then takes whole. */
const LINE_BREAKS: ReadonlySet<string> = new Set(["\\p{White_Space}*[\\r\\n]+", "\\p{White_Space}*[\\r\\n]"]);
const SPACES: ReadonlySet<string> = new Set(["\\p{White_Space}+", SPACE_TAIL]);
/** Words of capitals and small letters (o200k): the first fails behind a run of capitals, which the second takes. */
const WORD_HEAD = "[^\\r\\n\\p{L}\\p{N}]?";
const [UPPER, LOWER] = ["[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]", "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"];
const CAPITALIZED = `${WORD_HEAD}${UPPER}*${LOWER}+`;
const CAPITALS = `${WORD_HEAD}${UPPER}+${LOWER}*`;
const CONTRACTION = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?";

/** `source`: JavaScript's, with the flag `u`. */
export function isPlainPattern(source: string): boolean {
  const texts = topLevel(source);
  return texts.every((text) => isKnown(text, texts) || hasSafeLoops(text));
}

function isKnown(text: string, all: readonly string[]): boolean {
  // One step back is enough for it, or it fails after one character.
  if (text === SPACE_TAIL) return true;
  if (LINE_BREAKS.has(text)) return all.some((each) => SPACES.has(each));
  for (const tail of ["", CONTRACTION]) if (text === CAPITALIZED + tail) return all.includes(CAPITALS + tail);
  return false;
}

/** Alternatives of the outermost level, as written. */
function topLevel(source: string): readonly string[] {
  const texts: string[] = [];
  let [depth, start, isClass] = [0, 0, false];
  for (let at = 0; at < source.length; at += 1) {
    const char = source[at];
    if (char === "\\") at += 1;
    else if (isClass) isClass = char !== "]";
    else if (char === "[") isClass = true;
    else if (char === "(") depth += 1;
    else if (char === ")") depth -= 1;
    else if (char === "|" && depth === 0) {
      texts.push(source.slice(start, at));
      start = at + 1;
    }
  }
  return [...texts, source.slice(start)];
}

function hasSafeLoops(text: string): boolean {
  try {
    return cannotFailBehindLoops(parsePattern(text));
  } catch {
    return false;
  }
}

/** Loops of single characters only, and behind the first loop nothing that has to be there. */
function cannotFailBehindLoops(node: PatternNode): boolean {
  const items = node.kind === "sequence" ? node.items : [node];
  let hasLoop = false;
  for (const item of items) {
    if (!isBounded(item) && !isLoop(item)) return false;
    if (hasLoop && !(item.kind === "repeat" && item.min === 0)) return false;
    hasLoop ||= isLoop(item);
  }
  return true;
}

function isLoop(node: PatternNode): boolean {
  return node.kind === "repeat" && node.item.kind === "atom" && node.max > MAX_COUNT && !node.isLazy;
}

/** Takes a number of characters that the pattern bounds, and has few ways to do so. */
function isBounded(node: PatternNode): boolean {
  switch (node.kind) {
    case "atom":
      return true;
    case "repeat":
      return node.item.kind === "atom" ? node.max <= MAX_COUNT : node.max <= 1 && isBounded(node.item);
    case "choice":
      return node.options.every(isFixed);
    case "sequence":
      return isFixed(node);
    default:
      return false;
  }
}

function isFixed(node: PatternNode): boolean {
  return node.kind === "atom" || (node.kind === "sequence" && node.items.every(({ kind }) => kind === "atom"));
}
