/** Masks against a matcher that lists all texts, for random grammars, and for what random ones do not have. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createForcedRun, forcedTokens, maskBehind } from "../forced-run.ts";
import { compileGrammar } from "../grammar/compile-grammar.ts";
import { parseEbnf } from "../grammar/parse-ebnf.ts";
import type { Rules } from "../grammar/syntax.ts";
import { TermStore } from "../grammar/term-store.ts";
import { GuideMatcher } from "./guide-matcher.ts";
import { MaskMaker } from "./mask-maker.ts";
import { packTokens } from "./packed-tokens.ts";
import { type Language, languages, randomOf, randomRules } from "./random-grammar.test-support.ts";
import { StackAutomaton } from "./stack-automaton.ts";
import { isAllowed } from "./token-mask.ts";
import { vocabularyTrie } from "./vocabulary-trie.ts";

const LETTERS = ["a", "b", "é", "c"];
const ALPHABET = LETTERS.map((letter) => letter.codePointAt(0) ?? 0);
const LONGEST = 5;
/** Random grammars have no others. */
const RANDOM_ALPHABET = ALPHABET.slice(0, 3);
const END = 63;

/** Letters, pairs and triples of them, and the two bytes of one. */
const TEXTS = [
  ...LETTERS,
  ...LETTERS.flatMap((one) => LETTERS.map((other) => one + other)),
  ...["aaa", "aba", "abb", "bab", "cab", "éaé"],
].map((text) => Buffer.from(text));
const TOKENS = [...TEXTS, Buffer.of(0xc3), Buffer.of(0xa9)];
const TOKEN_BYTES = Array.from({ length: 64 }, (_, id) => Uint8Array.from(TOKENS[id] ?? []));
const TRIE = vocabularyTrie(TOKEN_BYTES);

/** Everything that a thread shares among its grammars. */
function createParts() {
  const store = new TermStore();
  const automaton = new StackAutomaton(store);
  const masks = new MaskMaker(TRIE, 64, store, automaton);
  const open = (rules: Rules): GuideMatcher => {
    const term = compileGrammar(rules, "root", [], store, { left: 1e6 });
    const parts = { automaton, masks, tokens: packTokens(TOKEN_BYTES), trie: TRIE };
    return new GuideMatcher(parts, automaton.push(term, automaton.end), [END], []);
  };
  return { store, automaton, masks, open };
}

function allowedBy(matcher: GuideMatcher): number[] {
  const words = new Int32Array(2);
  matcher.writeMask(words);
  return TOKEN_BYTES.map((_, id) => id).filter((id) => isAllowed(words, id));
}

/** Tokens that some text goes on with, as far as texts of that length tell. */
function expectedAfter(prefix: string, language: Language): number[] {
  const starts = (text: string): boolean => [...language].some((each) => each.startsWith(text));
  return TOKEN_BYTES.map((_, id) => id).filter((id) => {
    if (id === END) return language.has(prefix);
    const token = Buffer.from(TOKEN_BYTES[id] ?? []).toString("latin1");
    return token !== "" && starts(prefix + token);
  });
}

/** Fits every token that the list of texts has; tokens that lead only to longer texts than listed may be allowed too. */
function checkMask(matcher: GuideMatcher, prefix: string, language: Language, what: string): number[] {
  const allowed = allowedBy(matcher);
  const expected = expectedAfter(prefix, language);
  for (const id of expected) assert.ok(allowed.includes(id), `${what}: ${TOKENS[id]} is missing after '${prefix}'`);
  assert.equal(allowed.includes(END), expected.includes(END), `${what}: the end after '${prefix}'`);
  return allowed;
}

test("masks of random grammars allow what a list of their texts has, and texts under them are in the list", () => {
  const parts = createParts();
  let numEnds = 0;
  for (let seed = 1; seed <= 80; seed++) {
    const random = randomOf(seed);
    const rules = randomRules(random);
    const language = languages(rules, RANDOM_ALPHABET, LONGEST).get("root") ?? new Set<string>();
    const what = `seed ${seed}, ${JSON.stringify([...rules])}`;
    for (let walk = 0; walk < 3; walk++) {
      const matcher = parts.open(rules);
      for (let text = ""; ; ) {
        const allowed = checkMask(matcher, text, language, what);
        if (allowed.includes(END)) numEnds += 1;
        const fitting = allowed.filter((id) => text.length + (TOKENS[id]?.length ?? LONGEST) <= LONGEST);
        const token = fitting[Math.floor(random() * fitting.length)];
        if (token === undefined) break;
        text += TOKENS[token]?.toString("latin1");
        assert.equal(matcher.accept(token), true, what);
      }
    }
  }
  assert.ok(numEnds > 150, `${numEnds} texts`);
});

test("tokens that a mask forbids are refused, and tokens are taken back", () => {
  const { open } = createParts();
  const matcher = open(parseEbnf('root ::= "a" ("b" | "c"){2}', { isPrinted: false }));
  const before = allowedBy(matcher);
  assert.equal(matcher.accept(TOKENS.findIndex((token) => token.toString() === "b")), false);
  for (const letter of ["a", "b", "c"]) {
    assert.equal(matcher.accept(LETTERS.indexOf(letter)), true);
  }
  assert.deepEqual(allowedBy(matcher), [END]);
  matcher.rollback(3);
  assert.deepEqual(allowedBy(matcher), before);
  assert.throws(() => matcher.rollback(1), /cannot be taken back/);
});

test("forced runs are tokens of bytes that every text goes on with, each with the mask behind it", () => {
  const parts = createParts();
  let numForced = 0;
  for (let seed = 1; seed <= 80; seed++) {
    const random = randomOf(seed);
    const rules = randomRules(random);
    const what = `seed ${seed}, ${JSON.stringify([...rules])}`;
    const [matcher, other] = [parts.open(rules), parts.open(rules)];
    const run = createForcedRun(64);
    for (let step = 0; step < 8; step++) {
      matcher.writeForced(run);
      for (const [i, token] of forcedTokens(run).entries()) {
        const first = TOKEN_BYTES[token]?.[0];
        const starts = allowedBy(other).map((id) => (id === END ? "the end" : TOKEN_BYTES[id]?.[0]));
        assert.deepEqual([...new Set(starts)], [first], `${what}: all that may come begins with the same byte`);
        assert.equal(other.accept(token), true, what);
        const words = new Int32Array(2);
        other.writeMask(words);
        assert.deepEqual(maskBehind(run, i), words, `${what}: the mask behind token ${i}`);
        numForced += 1;
      }
      other.rollback(forcedTokens(run).length);
      const allowed = allowedBy(matcher).filter((id) => id !== END);
      const token = allowed[Math.floor(random() * allowed.length)];
      if (token === undefined) break;
      for (const each of [matcher, other]) assert.equal(each.accept(token), true, what);
    }
  }
  assert.ok(numForced > 30, `${numForced} tokens`);
});

test("forced runs are spelled as byte-pair encoding merges them, and are cut at their longest", () => {
  const { open } = createParts();
  const run = createForcedRun(64);
  const textsOf = (grammar: string): string[] => {
    open(parseEbnf(grammar, { isPrinted: false })).writeForced(run);
    return Array.from(forcedTokens(run), (id) => TOKENS[id]?.toString() ?? "");
  };
  const cases = [
    ['root ::= "aab" [ab]', ["aa", "b"]],
    ['root ::= "abéc"', ["ab", "éc"]],
    ['root ::= "ab"? "c"', []],
    ['root ::= "a" | "b"', []],
    ['root ::= "a"?', []],
    ['root ::= "abc" | "abb"', ["ab"]],
    ['root ::= "xy"', []],
  ] as const;
  for (const [grammar, expected] of cases) assert.deepEqual(textsOf(grammar), expected, grammar);
  assert.equal(textsOf('root ::= "abc"{30}').length, 16);
});

/** Ranges of characters: alone, before a text, and before characters of their own. */
const COUNTED = [
  'root ::= [a-b]{2,4} "c"',
  "root ::= [a-bé]{0,5}",
  'root ::= "a" [^c]{1,3} "c" [^c]* "c"',
  "root ::= [a-b]{1,2} [b-c]{2}",
  'root ::= x "a"?\nx ::= [a-é]{1,2} "c"',
];

for (const grammar of COUNTED) {
  test(`masks count characters: ${grammar}`, () => {
    const rules = parseEbnf(grammar, { isPrinted: false });
    // Whatever token comes first, some text of this length has it.
    const language = languages(rules, ALPHABET, 2 * LONGEST).get("root") ?? new Set<string>();
    for (let seed = 1; seed <= 20; seed++) {
      const random = randomOf(seed);
      const matcher = createParts().open(rules);
      for (let text = ""; ; ) {
        const allowed = checkMask(matcher, text, language, grammar);
        const expected = expectedAfter(text, language);
        if (text.length <= 1) assert.deepEqual(allowed, expected);
        const fitting = expected.filter((id) => id !== END);
        const token = fitting[Math.floor(random() * fitting.length)];
        if (token === undefined) break;
        text += TOKENS[token]?.toString("latin1");
        assert.equal(matcher.accept(token), true);
      }
    }
  });
}

test("equal rules of two grammars are the same terms", () => {
  const { store, open } = createParts();
  const grammar = (start: string) => `root ::= "${start}" s\ns ::= "a" | [^a-b] s | "b" s "c"`;
  open(parseEbnf(grammar("a"), { isPrinted: false }));
  const before = store.size;
  open(parseEbnf(grammar("b"), { isPrinted: false }));
  assert.ok(store.size - before <= 2, `${store.size - before} new terms`);
});

test("sweeping drops what no text needs, and masks stay as they are", () => {
  const { store, automaton, masks, open } = createParts();
  const matcher = open(parseEbnf('root ::= "a" s "b"\ns ::= "b" | [^a-b] s | "a" s "c"', { isPrinted: false }));
  open(parseEbnf('root ::= ("abc" | "cab"){3}', { isPrinted: false })).writeMask(new Int32Array(2));
  matcher.accept(LETTERS.indexOf("a"));
  const before = allowedBy(matcher);
  const size = store.size + automaton.size;
  const states = automaton.sweep(matcher.states);
  masks.forget(states);
  store.sweep([...states].flatMap(({ items }) => items.map(({ term }) => term)));
  assert.ok(store.size + automaton.size < size);
  assert.deepEqual(allowedBy(matcher), before);
  assert.equal(matcher.accept(LETTERS.indexOf("a")), true);
  assert.ok(allowedBy(matcher).length > 0);
});

test("an ambiguous grammar has few states: stacks with the same top are merged", () => {
  const { automaton, open } = createParts();
  const matcher = open(parseEbnf('root ::= s\ns ::= "a" s s | "a" s | s s | "a" | ""', { isPrinted: false }));
  for (let i = 0; i < 30; i++) assert.equal(matcher.accept(LETTERS.indexOf("a")), true);
  assert.ok(allowedBy(matcher).includes(END));
  assert.ok(automaton.size < 5000, `${automaton.size}`);
});

test("work beyond the budget of a mask is refused", () => {
  const { automaton, open } = createParts();
  const matcher = open(parseEbnf('root ::= ("a"{0,40} ("a"{0,40} "b"?){0,40}){0,40}', { isPrinted: false }));
  assert.throws(() => {
    for (let i = 0; i < 100; i++) {
      automaton.budget = { left: 100_000 };
      matcher.accept(LETTERS.indexOf("a"));
    }
  }, /takes too much work/);
});
