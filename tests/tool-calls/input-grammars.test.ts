/** Grammars of custom tools as the engine's guides take them: each text as it is, and as the input of a JSON call. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { readInputGrammar } from "@nereid/server/chat/input-grammar/input-grammar";
import { GrammarGuides } from "@nereid/server/engine/guide/grammar-guides";
import { loadTokenizer } from "@nereid/server/formats/tokenizer/tokenizer-files";

const MODEL = fileURLToPath(new URL("../../examples/nereid-tiny/language_model", import.meta.url));
const END = 2;

/** Codex's grammar of patches has these parts. */
const PATCH = `start: begin hunk+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?

hunk: add_hunk | delete_hunk   // one file
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

%import common.LF
`;
const SUM = `
?start: sum
?sum: product
    | sum ("+" | "-") product -> add
?product: atom | product "*" atom
atom: NUMBER | "(" sum ")"
NUMBER: DIGIT+ ["." DIGIT~1..2]
DIGIT: "0".."9"
%ignore " "
`;
const WORDS = `start: "select"i name (","i name)*
name: CNAME | ESCAPED_STRING
%import common (CNAME, ESCAPED_STRING)
%import common.WS_INLINE -> BLANK
%ignore BLANK`;

type Case = readonly [syntax: "lark" | "regex", definition: string, good: readonly string[], bad: readonly string[]];

const CASES: readonly Case[] = [
  [
    "lark",
    PATCH,
    [
      '*** Begin Patch\n*** Add File: a "b".txt\n+x\\y\n+\n*** End Patch',
      "*** Begin Patch\n*** Delete File: é\n*** End Patch\n",
    ],
    ["*** Begin Patch\n*** End Patch", "*** Begin Patch\n*** Delete File: \n*** End Patch", "hello"],
  ],
  ["lark", SUM, ["1", "1 + 2*(3.25 - 4)", "((7))", " 1 "], ["1 +", "1.", "(1", "1.234", "a"]],
  ["lark", WORDS, ["SeLect a, b", 'select "x\\"y", _z'], ["select", "select a b", 'select "x']],
  ["lark", 'start: "a" start? "\\x62"', ["ab", "aaabbb"], ["aab", "a"]],
  ["lark", 'start: (A | B)~2\nA: /[a-c]/i\nB: "\\u00e9" | "\\n"', ["aB", "é\n", "Cc"], ["a", "aaa", "dé"]],
  ["regex", "^[a-c]+-\\d{2}$", ["abc-12"], ["abc-1", "d-12", "abc-123"]],
  ["regex", "(?i)(?:yes|no)(?P<mark>[!?]{0,2})", ["YES", "no!?"], ["yess", "no!!!"]],
  ["regex", '[^"\\n\\\\]*"\\\\.\\t', ['a b"\\x\t', '"\\\\\t'], ['a"b"\\x\t', '"\\\n\t']],
  ["regex", "[\\x00-\\x1f]{1,3}|[]x-]|\\u{1F600}|\\.", ["\u0001\b\u001f", "]", "-", "😀", "."], ["a", "", "\\."]],
  ["regex", "\\w+\\s\\S\\D\\W", ["a_1 xy!", "b\té\n "], ["a 1", "a bcd"]],
];

let guides: GrammarGuides;
before(() => {
  guides = new GrammarGuides({ tokenizerDir: MODEL, vocabSize: 6144 });
});
after(() => guides.close());

/** Whether a grammar within a structural tag lets a whole text through, and then lets it end. */
async function accepts(grammar: string, text: string): Promise<boolean> {
  const tokenizer = await loadTokenizer(MODEL);
  const format = {
    type: "sequence",
    elements: [
      { type: "const_string", value: "<" },
      { type: "grammar", grammar },
    ],
  };
  const guide = { type: "structural_tag", text: JSON.stringify({ type: "structural_tag", format }) } as const;
  const session = await guides.open(guide, Int32Array.of(END));
  const isAllowed = (id: number): boolean => (((session.mask[id >> 5] ?? 0) >>> (id & 31)) & 1) === 1;
  try {
    for (const id of tokenizer.encode(`<${text}`, { addSpecialTokens: false })) {
      if (!isAllowed(id)) return false;
      session.accept(id);
      await session.pending;
      assert.equal(session.failure, undefined);
    }
    return isAllowed(END);
  } finally {
    session.close();
  }
}

for (const [syntax, definition, good, bad] of CASES) {
  test(`${syntax} ${JSON.stringify(definition)} holds for a text and for the input of a call`, async () => {
    const { plain, jsonString, jsonObject } = readInputGrammar(syntax, definition);
    for (const [texts, expected] of [
      [good, true],
      [bad, false],
    ] as const) {
      for (const text of texts) {
        const json = JSON.stringify(text);
        assert.equal(await accepts(plain, text), expected, text);
        assert.equal(await accepts(jsonString, json), expected, json);
        assert.equal(await accepts(jsonObject, `{"input": ${json}}`), expected, json);
      }
    }
  });
}

const REFUSED: readonly (readonly [syntax: "lark" | "regex", definition: string, message: RegExp])[] = [
  ["regex", "a(?=b)", /lookarounds are not supported/],
  ["regex", "(?<!b)a", /lookarounds are not supported/],
  ["regex", "a*?", /lazy quantifiers/],
  ["regex", "a*+", /possessive quantifiers/],
  ["regex", "(a)\\1", /\\1 is not supported/],
  ["regex", "\\bx", /\\b is not supported/],
  ["regex", "\\p{L}", /\\p is not supported/],
  ["regex", "a$b", /anchors within/],
  ["regex", "[a&&b]", /classes within a class/],
  ["regex", "(a", /a group is not closed/],
  ["regex", "[b-a]", /from low to high/],
  ["regex", "a{3,2}", /out of order/],
  ["regex", "[^\\s\\S]", /holds no character/],
  ["regex", "(".repeat(1e5), /groups are nested/],
  ["lark", 'begin: "a"', /there is no rule 'start'/],
  ["lark", "start: item", /line 1: 'item' is not defined/],
  ["lark", 'start: A\nA.2: "a"', /line 2: priorities of terminals/],
  ["lark", 'start: pair{A}\nA: "a"', /line 1: templates/],
  ["lark", 'pair{x}: x\nstart: "a"', /line 1: templates/],
  ["lark", '%declare X\nstart: "a"', /line 1: '%declare' is not supported/],
  ["lark", '%import .other.X\nstart: "a"', /imports other than 'common'/],
  ["lark", '%import common.PYTHON\nstart: "a"', /'common' has no 'PYTHON'/],
  ["lark", "start: /a/x", /flag 'x'/],
  ["lark", "start: /(?=a)/", /line 1: .*lookarounds/],
  ["lark", 'start: "a\nb: "', /line 1: unexpected '"'/],
  ["lark", "start: %json {}", /unexpected '%json'/],
  ["lark", "start: <token>", /tokens of the model/],
  ["lark", 'start: "a"\nstart: "b"', /'start' is defined twice/],
  ["lark", `start: ${"(".repeat(1e5)}`, /groups are nested/],
];

for (const [syntax, definition, message] of REFUSED) {
  test(`${syntax} ${JSON.stringify(definition.slice(0, 40))} is refused by name`, () => {
    assert.throws(() => readInputGrammar(syntax, definition), message);
  });
}
