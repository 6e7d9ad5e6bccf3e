/** Random grammars, and a matcher for them that is too simple to be wrong. */
import type { CodePointRange, Rules, Syntax } from "../grammar/syntax.ts";

export type Random = () => number;

/** Numbers from 0 to below 1, the same for the same seed. Source: Marsaglia, "Xorshift RNGs" (2003). */
export function randomOf(seed: number): Random {
  let state = seed * 2_654_435_761 + 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

const BEYOND_ASCII: readonly CodePointRange[] = [
  [0x62, 0x62],
  [0xe8, 0xea],
];
const NAMES = ["root", "x", "y"];

/** Three rules that may call each other at any place, left recursion included. */
export function randomRules(random: Random): Rules {
  return new Map(NAMES.map((name) => [name, randomSyntax(random, 3)]));
}

function randomSyntax(random: Random, depth: number): Syntax {
  const kind = Math.floor(random() * (depth === 0 ? 3 : 6));
  const inner = (): Syntax => randomSyntax(random, depth - 1);
  const several = (): Syntax[] => Array.from({ length: 1 + Math.floor(random() * 3) }, inner);
  switch (kind) {
    case 0:
      return { kind: "text", bytes: [...Buffer.from(["", "a", "b", "ab", "é"][Math.floor(random() * 5)] ?? "")] };
    case 1:
      return { kind: "class", ranges: random() < 0.5 ? [[0x61, 0x62]] : BEYOND_ASCII };
    case 2:
      return { kind: "name", name: NAMES[Math.floor(random() * 3)] ?? "" };
    case 3:
      return { kind: "sequence", parts: several() };
    case 4:
      return { kind: "choice", options: several() };
    default: {
      const min = Math.floor(random() * 3);
      const max = random() < 0.3 ? Number.POSITIVE_INFINITY : min + Math.floor(random() * 3);
      return { kind: "repeat", part: inner(), min, max };
    }
  }
}

/** Which texts of at most `maxLength` bytes fit each rule, found by adding texts until there are no more. */
export function languages(rules: Rules, alphabet: readonly number[], maxLength: number): ReadonlyMap<string, Language> {
  let found = new Map([...rules.keys()].map((name): [string, Language] => [name, new Set()]));
  for (let before = -1, size = 0; size !== before; ) {
    before = size;
    const last = found;
    found = new Map([...rules].map(([name, syntax]) => [name, languageOf(syntax, last, alphabet, maxLength)]));
    size = [...found.values()].reduce((sum, language) => sum + language.size, 0);
  }
  return found;
}

/** Texts as bytes in Latin-1. */
export type Language = ReadonlySet<string>;

function languageOf(
  syntax: Syntax,
  known: ReadonlyMap<string, Language>,
  alphabet: readonly number[],
  maxLength: number,
): Language {
  const of = (part: Syntax): Language => languageOf(part, known, alphabet, maxLength);
  switch (syntax.kind) {
    case "text":
      return new Set([Buffer.from(syntax.bytes).toString("latin1")].filter(({ length }) => length <= maxLength));
    case "class": {
      const points = alphabet.filter((point) => syntax.ranges.some(([first, last]) => first <= point && point <= last));
      return new Set(points.map((point) => Buffer.from(String.fromCodePoint(point)).toString("latin1")));
    }
    case "name":
      return known.get(syntax.name) ?? new Set();
    case "sequence":
      return syntax.parts.reduce<Language>((before, part) => product(before, of(part), maxLength), new Set([""]));
    case "choice":
      return new Set(syntax.options.flatMap((option) => [...of(option)]));
    case "repeat":
      return repetitions(of(syntax.part), syntax.min, syntax.max, maxLength);
    default:
      throw new Error(`no random grammar has ${syntax.kind}`);
  }
}

function product(one: Language, other: Language, maxLength: number): Language {
  const both = new Set<string>();
  for (const first of one) {
    for (const second of other) if (first.length + second.length <= maxLength) both.add(first + second);
  }
  return both;
}

function repetitions(part: Language, min: number, max: number, maxLength: number): Language {
  const all = new Set<string>();
  let now: Language = new Set([""]);
  // Longer ones than the text can have bytes repeat the empty text.
  for (let count = 0; count <= Math.min(max, min + maxLength); count++) {
    if (count >= min) for (const text of now) all.add(text);
    now = product(now, part, maxLength);
  }
  return all;
}
