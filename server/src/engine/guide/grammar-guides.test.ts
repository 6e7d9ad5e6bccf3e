import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { ServerError } from "../../core/server-error.ts";
import { loadTokenizer } from "../../formats/tokenizer/tokenizer-files.ts";
import type { Guide } from "../request/generate.ts";
import { GrammarGuides } from "./grammar-guides.ts";
import { grammarOf } from "./guide-grammar.ts";
import type { GuideSession } from "./guides.ts";
import { readVocabulary } from "./tokenizer-vocabulary.ts";

const MODEL = fileURLToPath(new URL("../../../../examples/nereid-tiny/language_model", import.meta.url));
const VOCAB = 6144;
const END = 2;
const END_IDS = Int32Array.of(END);

function createGuides(t: TestContext): GrammarGuides {
  const guides = new GrammarGuides({ tokenizerDir: MODEL, vocabSize: VOCAB });
  t.after(() => guides.close());
  return guides;
}

function allows({ mask }: GuideSession, id: number): boolean {
  return (((mask[id >> 5] ?? 0) >>> (id & 31)) & 1) === 1;
}

/** Whether the guide lets a whole text through, token by token, and then lets it end. */
async function accepts(guides: GrammarGuides, guide: Guide, text: string): Promise<boolean> {
  const tokenizer = await loadTokenizer(MODEL);
  const session = await guides.open(guide, END_IDS);
  try {
    for (const id of tokenizer.encode(text, { addSpecialTokens: false })) {
      if (!allows(session, id)) return false;
      session.accept(id);
      await session.pending;
      assert.equal(session.failure, undefined);
    }
    return allows(session, END);
  } finally {
    session.close();
  }
}

const SCHEMA = JSON.stringify({
  type: "object",
  properties: { name: { type: "string" }, age: { type: "integer" } },
  required: ["name", "age"],
  additionalProperties: false,
});

const CALL = { type: "object", properties: { a: { type: "integer" } }, required: ["a"], additionalProperties: false };
const TAG = JSON.stringify({
  type: "structural_tag",
  format: {
    type: "triggered_tags",
    triggers: ["<f>"],
    tags: [{ type: "tag", begin: "<f>", content: { type: "json_schema", json_schema: CALL }, end: "</f>" }],
    at_least_one: false,
    stop_after_first: true,
  },
});

const INTEGER = { type: "integer" };

/** Separators of what repeats. */
const REPEATED: readonly (readonly [schema: object, good: string[], bad: string[]])[] = [
  [
    { type: "object", additionalProperties: INTEGER },
    ["{}", '{"a": 1}', '{"a": 1, "b": 2 , "c":3}'],
    ['{"a": 1"b": 2}', '{"a": 1 "b": 2}', '{"a": 1,}', '{"a": 1,, "b": 2}'],
  ],
  [{ type: "array", items: INTEGER }, ["[]", "[1 , 2,3]"], ["[1 2]", "[1,]", "[,1]"]],
  [
    { type: "array", items: { type: "object", additionalProperties: INTEGER }, maxItems: 2 },
    ['[{"a": 1, "b": 2}, {}]'],
    ['[{"a": 1"b": 2}]', '[{"a": 1}{}]'],
  ],
  [
    { type: "object", properties: { a: INTEGER, b: INTEGER }, additionalProperties: INTEGER },
    ['{"a": 1, "b": 2, "c": 3}', '{"b": 2}'],
    ['{"a": 1"b": 2}', '{"b": 2"c": 3}'],
  ],
];

const RANGES: readonly (readonly [schema: object, good: string[], bad: string[]])[] = [
  [{ type: "integer", minimum: 3 }, ["3", "9", "10", "20", "123456"], ["1", "2", "0", "-3"]],
  [{ type: "integer", minimum: -3 }, ["-3", "-1", "0", "7", "100"], ["-", "-4"]],
  [{ type: "integer", exclusiveMaximum: 0 }, ["-1", "-20"], ["0", "1"]],
  [{ type: "number", minimum: 0.5, maximum: 2 }, ["0.5", "1.25", "2"], ["0x5", "3", "-1"]],
  [{ type: "number", minimum: -3 }, ["-2.5", "0", "12.5"], ["-", "-5"]],
  [{ type: "number", minimum: -56.5, maximum: -54.5 }, ["-55.25", "-56.5", "-54.5"], ["-5445", "-56.6", "-54.4"]],
  [{ type: "number", minimum: 0.1, maximum: 0.9 }, ["0.1", "0.55", "0.9"], ["0", "1", "0.95"]],
  [{ type: ["number", "null"], exclusiveMinimum: 0, maximum: 1 }, ["0.000001", "1", "null"], ["0", "-1", '"0.5"']],
  [
    { type: "object", properties: { minimum: { type: "integer", minimum: 3 } } },
    ['{"minimum": 3}', "{}"],
    ['{"minimum": 2}'],
  ],
];

test("open() allows what fits the guide and nothing else", async (t) => {
  const guides = createGuides(t);
  const cases: [Guide, string[], string[]][] = [
    [{ type: "regex", text: "[a-c]+-[0-9]{2}" }, ["abc-12", "c-00"], ["abc", "d-12", "a-1", "a-123"]],
    [
      { type: "choice", text: '["red", "green \\"leaf\\"", "größe\\n☃"]' },
      ["red", 'green "leaf"', "größe\n☃"],
      ["re", "blue"],
    ],
    [{ type: "ebnf_grammar", text: 'root ::= "x" y\ny ::= "1" | "2" y' }, ["x1", "x221"], ["x", "x2", "y1"]],
    [
      { type: "structural_tag", text: TAG },
      ["no call", 'first <f>{"a":1}</f>', '<f>{"a":1}</f>'],
      ['<f>{"a":"x"}</f>', "<f>{}</f>", `<f>{${" ".repeat(17)}"a":1}</f>`],
    ],
    ...[...RANGES, ...REPEATED].map(([bounds, good, bad]): [Guide, string[], string[]] => [
      { type: "json_schema", text: JSON.stringify(bounds) },
      good,
      bad,
    ]),
    [{ type: "json", text: "" }, ['{"a": [1, 2.5, null]}', '[true, "b"]'], ["{", '{"a" 1}', "hello"]],
    [
      { type: "json_schema", text: SCHEMA },
      ['{"name": "Ann", "age": 7}', `{${" ".repeat(16)}"name":"Ann","age":7}`],
      [
        `{${" ".repeat(17)}"name":"Ann","age":7}`,
        '{"name": "Ann"}',
        '{"age": 7, "name": "Ann"}',
        '{"name": "Ann", "age": "7"}',
      ],
    ],
  ];
  for (const [guide, good, bad] of cases) {
    for (const text of good) assert.equal(await accepts(guides, guide, text), true, `${guide.type}: ${text}`);
    for (const text of bad) assert.equal(await accepts(guides, guide, text), false, `${guide.type}: ${text}`);
  }
});

test("open() refuses guides that make no sense, and serves others at the same time", async (t) => {
  const guides = createGuides(t);
  const refused: [Guide, RegExp][] = [
    [{ type: "regex", text: "(" }, /the guide cannot be compiled: Regex parsing error at position 2/],
    [{ type: "json_schema", text: '{"type":' }, /the guide cannot be compiled: .*Failed to parse JSON/],
    [{ type: "ebnf_grammar", text: "root ::= " }, /the guide cannot be compiled: EBNF parser error at line 1/],
    [{ type: "ebnf_grammar", text: 'start ::= "a"' }, /the guide cannot be compiled/],
    [{ type: "structural_tag", text: "{" }, /the guide cannot be compiled/],
    [{ type: "choice", text: "[]" }, /must be a JSON list of texts/],
    [{ type: "choice", text: '["a", ""]' }, /must be a JSON list of texts/],
    [{ type: "choice", text: "red" }, /must be a JSON list of texts/],
  ];
  const good = accepts(guides, { type: "regex", text: "ab" }, "ab");
  for (const [guide, message] of refused) {
    for (let i = 0; i < 2; i++) {
      await assert.rejects(guides.open(guide, END_IDS), (error: ServerError) => {
        assert.match(error.message, message);
        return error.code === "invalid_argument";
      });
    }
  }
  assert.equal(await good, true);
});

test("open() gives up a guide that takes too long, and texts under way go on", async (t) => {
  const guides = createGuides(t);
  const session = await guides.open({ type: "regex", text: "a{1,900}" }, END_IDS);
  const endless: Guide = { type: "regex", text: "((a{1,900}){1,900}b){1,900}" };
  const given = assert.rejects(guides.open(endless, END_IDS), /takes more than 1 s to compile/);
  const a = (await loadTokenizer(MODEL)).encode("a", { addSpecialTokens: false })[0] ?? 0;
  for (let i = 0; i < 20; i++) {
    assert.equal(allows(session, a), true);
    session.accept(a);
    await session.pending;
  }
  await given;
  await assert.rejects(guides.open(endless, END_IDS), /takes more than 1 s to compile/);
  assert.equal(session.failure, undefined);
  assert.equal(await accepts(guides, { type: "choice", text: '["b"]' }, "b"), true);
});

/** Converting it takes the grammar library seconds; then it refuses it, so that no mask is made of it. */
function slowToConvert(): string {
  const names = Array.from({ length: 2500 }, (_, i) => `p${i}`);
  const properties = Object.fromEntries(names.map((name) => [name, INTEGER]));
  const object = { type: "object", properties, additionalProperties: false, minProperties: 20 };
  return JSON.stringify({ anyOf: [object, { $ref: "#/absent" }] });
}

test("open() gives up a guide that takes too long to convert to EBNF, before any mask", async (t) => {
  const guides = createGuides(t);
  const given = guides.open({ type: "json_schema", text: slowToConvert() }, END_IDS);
  await assert.rejects(given, /^ServerError: the guide takes more than 1 s to compile: make it simpler$/);
  assert.equal(await accepts(guides, { type: "choice", text: '["b"]' }, "b"), true);
});

test("accept() gives up a text with an ambiguous guide, and no other", async (t) => {
  const guides = createGuides(t);
  const a = (await loadTokenizer(MODEL)).encode("a", { addSpecialTokens: false })[0] ?? 0;
  const other = await guides.open({ type: "regex", text: "a+" }, END_IDS);
  const session = await guides.open(
    { type: "ebnf_grammar", text: 'root ::= ([ab]{0,40} ([ab]{0,40} "a"){0,40}){0,40}' },
    END_IDS,
  );
  for (let i = 0; i < 1000 && session.failure === undefined; i++) {
    session.accept(a);
    other.accept(a);
    await session.pending;
    await other.pending;
  }
  assert.match(
    session.failure?.message ?? "",
    /the guide is ambiguous: one token took \d+ ms to prepare, at most 100 ms/,
  );
  assert.deepEqual([other.failure, allows(other, a)], [undefined, true]);
});

const STRINGS: readonly (readonly [schema: object, fits: readonly string[], fails: readonly string[]])[] = [
  [{ pattern: "^.{1,3}$" }, ['"a"', '"é\\"b"', '"\\n\\\\"', '"\\u0007"'], ['"""', '"\\"', '"a\n"', '"\\q"', '"abcd"']],
  [{ pattern: "^[^x]{1,3}$" }, ['"\\"\\""', '"y"'], ['"x"', '"""', '"\t"']],
  [{ pattern: '^a"b\\\\c\\n$' }, ['"a\\"b\\\\c\\n"'], ['"a"b', '"a\\"b\\c']],
  [{ pattern: "^[a-z]{1,4}$" }, ['"abc"'], ['"\\"', '"A"']],
  [{ minLength: 3 }, ['"\\"\\n\\\\"', '"abcdefgh"'], ['"ab"', '"a"b"']],
  [{ minLength: 1, maxLength: 2 }, ['"\\"\\\\"', '"é"', '"\\t\\u0000"'], ['"\u0000"', '"\t"', '""', '"abc"']],
  [{ format: "json-pointer" }, ['"/a~1\\\\"', '"/\\""'], ['"/""', '"/\\a"']],
  [{ format: "email" }, ['"a@b.co"', '"\\"a b\\"@b.co"'], ['"a b@b.co"', '""a"@b.co"']],
];

test("strings with a pattern, a format or a length have escapes where JSON asks for them", async (t) => {
  const guides = createGuides(t);
  for (const [schema, fits, fails] of STRINGS) {
    const guide = { type: "json_schema", text: JSON.stringify({ type: "string", ...schema }) } as const;
    for (const text of fits) assert.equal(await accepts(guides, guide, text), true, `${guide.text} ${text}`);
    for (const text of fails) assert.equal(await accepts(guides, guide, text), false, `${guide.text} ${text}`);
  }
});

test("names of properties with a pattern have escapes where JSON asks for them", async (t) => {
  const guides = createGuides(t);
  for (const schema of [{ patternProperties: { "^.x$": { type: "null" } } }, { propertyNames: { pattern: "^.x$" } }]) {
    const guide = {
      type: "json_schema",
      text: JSON.stringify({ type: "object", minProperties: 1, ...schema }),
    } as const;
    assert.equal(await accepts(guides, guide, '{"\\"x": null}'), true, guide.text);
    assert.equal(await accepts(guides, guide, '{""x": null}'), false, guide.text);
  }
});

test("warmUp() leaves guides as they were, and its failures to the first of them", async (t) => {
  const guides = createGuides(t);
  await guides.warmUp();
  assert.equal(await accepts(guides, { type: "json_schema", text: SCHEMA }, '{"name": "a", "age": 7}'), true);
  const broken = new GrammarGuides({ tokenizerDir: "/nowhere", vocabSize: VOCAB });
  t.after(() => broken.close());
  await broken.warmUp();
  await assert.rejects(broken.open({ type: "json", text: "" }, END_IDS), /guided decoding failed/);
});

test("close() fails what is under way", async () => {
  const guides = new GrammarGuides({ tokenizerDir: MODEL, vocabSize: VOCAB });
  const opening = assert.rejects(guides.open({ type: "json", text: "" }, END_IDS), /the engine is closed/);
  await new Promise((resolve) => setImmediate(resolve));
  await guides.close();
  await opening;
});

test("grammarOf() writes choices so that nothing in them is grammar", () => {
  assert.deepEqual(grammarOf({ type: "choice", text: '["a\\"| \\\\b", "é"]' }), {
    kind: "ebnf",
    text: 'root ::= "a\\U00000022| \\U0000005cb" | "\\U000000e9"',
  });
});

test("readVocabulary() reads every token and how bytes are written", () => {
  const tiny = readVocabulary(JSON.parse(readFileSync(`${MODEL}/tokenizer.json`, "utf8")));
  assert.deepEqual([tiny.tokens.length, tiny.tokens[2], tiny.type], [VOCAB, "</s>", "byte_level"]);
  const fallback = { type: "Sequence", decoders: [{ type: "Replace" }, { type: "ByteFallback" }] };
  const llama = readVocabulary({
    model: { vocab: { a: 0, b: 3 } },
    added_tokens: [{ id: 1, content: "<s>", special: true }],
    decoder: fallback,
  });
  assert.deepEqual(llama, {
    tokens: ["a", "<s>", "", "b"],
    type: "byte_fallback",
    specials: [{ id: 1, text: "<s>" }],
  });
  assert.deepEqual(
    readVocabulary({
      model: {
        vocab: [
          ["x", -1.5],
          ["y", -2],
        ],
      },
    }),
    { tokens: ["x", "y"], type: "raw", specials: [] },
  );
  assert.throws(() => readVocabulary({ model: {} }), /no vocabulary/);
});

test("an answer ends where its guide ends, and has no special token within a text", async (t) => {
  const guides = createGuides(t);
  const schema = { type: "object", additionalProperties: { type: "string", minLength: 1, maxLength: 8 } };
  const tokenizer = await loadTokenizer(MODEL);
  const [bos = 0] = tokenizer.encode("<s>", { addSpecialTokens: false });
  const session = await guides.open({ type: "json_schema", text: JSON.stringify(schema) }, END_IDS);
  for (const id of tokenizer.encode('{"a":"?', { addSpecialTokens: false })) {
    assert.deepEqual([allows(session, END), allows(session, bos), allows(session, id)], [false, false, true]);
    session.accept(id);
    await session.pending;
  }
  assert.deepEqual([allows(session, END), allows(session, bos)], [false, false]);
  session.close();
});
