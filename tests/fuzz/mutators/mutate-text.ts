/** Breaks text token by token, with words of its grammar, so that most results still parse in part. Knows no grammar of its own. */
import type { Random } from "../../support/random.ts";
import { mutateBytes } from "./mutate-bytes.ts";

type Mutation = (tokens: string[], random: Random, words: readonly string[]) => void;

const TOKEN = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[\p{L}_][\p{L}\p{N}_]*|[\d.]+|\s+|\{[{%#]-?|-?[}%#]\}|[\s\S]/gu;
const MAX_DEPTH = 400;
/** One in so many is broken as bytes, encoding included. */
const BYTES_ONE_IN = 12;

/** Mutations of one text: mostly one, so that many results are still whole. */
const COUNTS: readonly number[] = [1, 1, 1, 2, 2, 4];

const MUTATIONS: readonly Mutation[] = [
  exchange,
  exchange,
  exchange,
  (tokens, random, words) => void tokens.splice(random.below(tokens.length + 1), 1, random.pick(words)),
  (tokens, random, words) => void tokens.splice(random.below(tokens.length + 1), 0, random.pick(words)),
  (tokens, random, words) => void tokens.splice(random.below(tokens.length + 1), 0, random.pick(words)),
  (tokens, random) => void tokens.splice(random.below(tokens.length + 1), 1 + random.below(4)),
  copyPart,
  copyPart,
  (tokens, random) => void tokens.splice(random.below(tokens.length + 1)),
  nest,
];

/** A mutator of texts with these words: names, operators, values and brackets of the grammar. */
export function textMutator(words: readonly string[]): (seed: Buffer, random: Random) => Buffer {
  return (seed, random) => {
    if (random.below(BYTES_ONE_IN) === 0) return mutateBytes(seed, random);
    const tokens = seed.toString("utf8").match(TOKEN) ?? [];
    for (let left = random.pick(COUNTS); left > 0; left -= 1) random.pick(MUTATIONS)(tokens, random, words);
    return Buffer.from(tokens.join(""));
  };
}

/** A token makes room for a word of its kind: a name, a number, a text, a mark. */
function exchange(tokens: string[], random: Random, words: readonly string[]): void {
  const at = random.below(tokens.length);
  const kind = kindOf(tokens[at] ?? "");
  const alike = words.filter((word) => kindOf(word) === kind);
  if (alike.length > 0) tokens[at] = random.pick(alike);
}

function kindOf(token: string): string {
  if (/^[\d.-]*\d/.test(token)) return "number";
  if (/^["']/.test(token)) return "text";
  return /^[\p{L}_]/u.test(token) ? "name" : "mark";
}

/** A part appears elsewhere once more, up to ten times. */
function copyPart(tokens: string[], random: Random): void {
  const from = random.below(tokens.length + 1);
  const part = tokens.slice(from, from + 1 + random.below(30));
  const copies = Array.from({ length: 1 + random.below(10) }, () => part).flat();
  tokens.splice(random.below(tokens.length + 1), 0, ...copies);
}

/** One word very often in a row, as deep nesting begins. */
function nest(tokens: string[], random: Random, words: readonly string[]): void {
  const word = random.pick(words);
  tokens.splice(random.below(tokens.length + 1), 0, word.repeat(random.below(MAX_DEPTH)));
}
