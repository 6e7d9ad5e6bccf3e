import assert from "node:assert/strict";
import { test } from "node:test";
import { type FlagTable, parseArguments, UsageError } from "./arguments.ts";
import { helpText } from "./arguments-help.ts";

const FLAGS = {
  output_dir: { type: "string", short: "o", summary: "where it goes", value: "DIR" },
  max_beam_width: { type: "integer", summary: "beams", default: 1, min: 1, max: 64 },
  fraction: { type: "number", summary: "share of memory" },
  dtype: { type: "string", summary: "type", choices: ["float16", "bfloat16", "float32"] },
  include: { type: "string", many: "list", summary: "patterns" },
  load_model: { type: "string", many: "repeated", summary: "model" },
  force: { type: "switch", short: "f", summary: "replace" },
  "local-dir-use-symlinks": { type: "string", summary: "nothing", hidden: true },
} as const satisfies FlagTable;

const SYNTAX = {
  command: "try",
  description: "Tries it.",
  flags: FLAGS,
  positionals: [
    { name: "model", summary: "which model" },
    { name: "file", summary: "which files", optional: true, many: true },
  ],
  examples: ["nereid try gpt2"],
} as const;

const ACCEPTED: readonly [string, readonly string[], Readonly<Record<string, unknown>>][] = [
  ["defaults", ["m"], { max_beam_width: 1, include: [], load_model: [], force: false, output_dir: undefined }],
  ["a value behind the name", ["m", "--output_dir", "x"], { output_dir: "x" }],
  ["a value behind =", ["m", "--output_dir=x=y"], { output_dir: "x=y" }],
  ["- for _", ["m", "--output-dir", "x"], { output_dir: "x" }],
  ["_ for -", ["m", "--local_dir_use_symlinks", "False"], { "local-dir-use-symlinks": "False" }],
  ["a beginning that fits one flag", ["m", "--local-dir-use-symlink=False"], { "local-dir-use-symlinks": "False" }],
  ["a short form", ["m", "-o", "x", "-f"], { output_dir: "x", force: true }],
  ["a short form with its value", ["m", "-ox"], { output_dir: "x" }],
  ["a negative number as value", ["m", "--fraction", "-0.5"], { fraction: -0.5 }],
  ["numbers in scientific form", ["m", "--fraction=1e-3"], { fraction: 0.001 }],
  ["an empty value", ["m", "--output_dir="], { output_dir: "" }],
  ["a list up to the next flag", ["m", "--include", "a", "b", "-f"], { include: ["a", "b"], force: true }],
  ["the last list", ["m", "--include", "a", "--include", "b"], { include: ["b"] }],
  ["repeated flags", ["m", "--load-model=a", "--load-model", "b"], { load_model: ["a", "b"] }],
  ["the last of what is given twice", ["m", "--output_dir=a", "--output_dir=b"], { output_dir: "b" }],
  ["a switch turned off", ["m", "--force=false"], { force: false }],
];

for (const [title, argv, expected] of ACCEPTED) {
  test(`parseArguments() takes ${title}`, () => {
    const values: Readonly<Record<string, unknown>> = parseArguments(SYNTAX, argv).values;
    const found = Object.fromEntries(Object.keys(expected).map((name) => [name, values[name]]));
    assert.deepEqual(found, expected);
  });
}

const REFUSED: readonly [string, readonly string[], RegExp][] = [
  ["a name with a typing error", ["m", "--ouput_dir=x"], /there is no flag --ouput_dir; did you mean --output-dir\?/],
  ["a name like no other", ["m", "--zzzzzzzz"], /there is no flag --zzzzzzzz$/],
  ["a beginning that fits two flags", ["m", "--f", "1"], /--f could be --fraction or --force: write more of it/],
  ["an unknown letter", ["m", "-x"], /there is no flag -x/],
  ["a missing value", ["m", "--output_dir"], /--output_dir needs a value/],
  ["a flag in place of a value", ["m", "--output_dir", "--force"], /--output_dir needs a value/],
  ["text for an integer", ["m", "--max_beam_width=8abc"], /--max_beam_width is an integer, got '8abc'/],
  ["a fraction for an integer", ["m", "--max_beam_width=1.5"], /is an integer, got '1.5'/],
  ["text for a number", ["m", "--fraction=much"], /--fraction is a number, got 'much'/],
  ["an infinite number", ["m", "--fraction=1e999"], /is a number, got '1e999'/],
  ["less than the minimum", ["m", "--max_beam_width=0"], /at least 1, got 0/],
  ["more than the maximum", ["m", "--max_beam_width=65"], /at most 64, got 65/],
  [
    "what is no choice",
    ["m", "--dtype=float61"],
    /one of float16, bfloat16, float32, got 'float61'; did you mean 'float16'\?/,
  ],
  ["a switch with text", ["m", "--force=perhaps"], /--force is true or false, got 'perhaps'/],
  ["no positional", [], /<model> is missing: which model/],
];

for (const [title, argv, expected] of REFUSED) {
  test(`parseArguments() refuses ${title}`, () => {
    assert.throws(
      () => parseArguments(SYNTAX, argv),
      (error) => error instanceof UsageError && expected.test(error.message),
    );
  });
}

test("parseArguments() takes everything behind -- as positionals", () => {
  const { positionals, given } = parseArguments(SYNTAX, ["m", "-f", "--", "--output_dir", "-x"]);
  assert.deepEqual(positionals, ["m", "--output_dir", "-x"]);
  assert.deepEqual([...given], ["force"]);
});

test("parseArguments() refuses more positionals than there are when the last is not many", () => {
  const syntax = { ...SYNTAX, positionals: [{ name: "model", summary: "which model" }] };
  assert.throws(() => parseArguments(syntax, ["a", "b"]), /'b' is one argument too many/);
});

test("parseArguments() refuses a command without a required flag", () => {
  const syntax = {
    command: "x",
    description: "",
    flags: { repo: { type: "string", required: true, summary: "which" } },
  } as const;
  assert.throws(() => parseArguments(syntax, []), /--repo is missing: which/);
});

test("parseArguments() is not confused by names of Object's own fields", () => {
  assert.throws(() => parseArguments(SYNTAX, ["m", "--constructor"]), UsageError);
  assert.throws(() => parseArguments(SYNTAX, ["m", "--__proto__=1"]), UsageError);
});

test("helpText() shows usage, arguments, flags with their notes and examples, and no hidden flags", () => {
  const text = helpText({ ...SYNTAX, flags: { ...FLAGS, id: { type: "integer", summary: "which", required: true } } });
  assert.match(text, /^Usage: nereid try --id N \[options\] <model> \[<file>\.\.\.\]\n/);
  assert.match(text, /-o, --output_dir DIR +where it goes\n/);
  assert.match(text, /--max_beam_width N +beams \(default 1\)\n/);
  assert.match(text, /type \(one of float16, bfloat16, float32\)\n/);
  assert.match(text, /Examples:\n {2}nereid try gpt2\n$/);
  assert.doesNotMatch(text, /symlink/);
});
