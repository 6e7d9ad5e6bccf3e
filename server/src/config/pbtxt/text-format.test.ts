import assert from "node:assert/strict";
import { test } from "node:test";
import type { WrittenMessage } from "../model/written-message.ts";
import { parseTextMessage } from "./text-format.ts";

/** `@{name}` stands for a placeholder of a template, so that no linter takes it for a forgotten backquote. */
function unmasked(text: string): string {
  return text.replaceAll("@{", "$" + "{");
}

function parse(text: string): WrittenMessage {
  return parseTextMessage(unmasked(text), "config.pbtxt", "ModelConfig");
}

/** Without the null prototypes, which deepEqual would report. */
function plain(text: string): unknown {
  return JSON.parse(JSON.stringify(parse(text)));
}

const ACCEPTED: readonly (readonly [string, string, unknown])[] = [
  ["an empty file", "", {}],
  ["comments and blanks", "# a comment\n\t name : 'x' # another\n#end", { name: "x" }],
  ["a byte order mark", "\uFEFFname: 'x'", { name: "x" }],
  ["Windows line ends", 'name: "x"\r\nbackend: "y"\r\n', { name: "x", backend: "y" }],
  ["a blank before the colon", "instance_group [ { kind : KIND_CPU } ]", { instance_group: [{ kind: "KIND_CPU" }] }],
  [
    "blocks with and without a colon",
    "input: { name: 'a' } input { name: 'b' }",
    { input: [{ name: "a" }, { name: "b" }] },
  ],
  ["blocks in angle brackets", "input < name: 'a' >", { input: [{ name: "a" }] }],
  ["a list of blocks", "input [ { name: 'a' }, { name: 'b' } ]", { input: [{ name: "a" }, { name: "b" }] }],
  [
    "a list of blocks without commas",
    "input [ { name: 'a' } { name: 'b' } ]",
    { input: [{ name: "a" }, { name: "b" }] },
  ],
  ["a comma at the end of a list", "input [ { name: 'a' }, ]", { input: [{ name: "a" }] }],
  ["an empty list", "input { reshape: { shape: [ ] } }", { input: [{ reshape: { shape: [] } }] }],
  ["lists and repeated fields mixed", "input { dims: [1, 2] dims: 3 }", { input: [{ dims: [1, 2, 3] }] }],
  ["hexadecimal and octal integers", "input { dims: [0x10, 010, -1, 0] }", { input: [{ dims: [16, 8, -1, 0] }] }],
  ["a minus apart from its number", "max_batch_size: - 3", { max_batch_size: -3 }],
  ["separators", "name: 'x'; backend: 'y', max_batch_size: 4;", { name: "x", backend: "y", max_batch_size: 4 }],
  ["adjacent texts", 'name: "a" \'b\'\n  "c"', { name: "abc" }],
  ["escapes", String.raw`name: "\x41\102\n\t\"\\\u00e9\U0001F600"`, { name: 'AB\n\t"\\é😀' }],
  ["bytes that make one character", String.raw`name: "\303\251"`, { name: "é" }],
  ["enumerations by number", "input { data_type: 13 }", { input: [{ data_type: "TYPE_STRING" }] }],
  [
    "map entries",
    "metric_tags { key: 'a' value: 'b' } metric_tags: { value: 'd' key: 'c' },",
    { metric_tags: { a: "b", c: "d" } },
  ],
  [
    "a list of map entries",
    "metric_tags [ { key: 'a' value: 'b' }, { key: 'c' } ]",
    { metric_tags: { a: "b", c: "" } },
  ],
  [
    "the later of two equal keys",
    "metric_tags { key: 'a' value: 'b' } metric_tags { key: 'a' value: 'c' }",
    { metric_tags: { a: "c" } },
  ],
  [
    "integer keys",
    "dynamic_batching { priority_queue_policy { key: 3 value { max_queue_size: 1 } } }",
    { dynamic_batching: { priority_queue_policy: { 3: { max_queue_size: 1 } } } },
  ],
  [
    "placeholders inside quotes",
    "parameters { key: 'a' value { string_value: '@{b}' } }",
    { parameters: { a: { string_value: unmasked("@{b}") } } },
  ],
  ["an empty block", "version_policy { all { } }", { version_policy: { all: {} } }],
  [
    "floats",
    "sequence_batching { direct { minimum_slot_utilization: 1.5e-1f } }",
    { sequence_batching: { direct: { minimum_slot_utilization: 0.15 } } },
  ],
];

for (const [what, text, expected] of ACCEPTED) {
  test(`parseTextMessage() reads ${what}`, () => {
    assert.deepEqual(plain(text), expected);
  });
}

for (const [text, expected] of [
  ["true", true],
  ["True", true],
  ["t", true],
  ["1", true],
  ["false", false],
  ["False", false],
  ["f", false],
  ["0", false],
] as const) {
  test(`parseTextMessage() reads ${text} as a truth value`, () => {
    assert.deepEqual(plain(`input { optional: ${text} }`), { input: [{ optional: expected }] });
  });
}

test("parseTextMessage() reads infinities and nan", () => {
  const text = "model_metrics { metric_control { histogram_options { buckets: [inf, -Infinity, nan] } } }";
  const metrics = parse(text).model_metrics as { metric_control: { histogram_options: { buckets: number[] } }[] };
  assert.deepEqual(metrics.metric_control[0]?.histogram_options.buckets, [Infinity, -Infinity, Number.NaN]);
});

test("parseTextMessage() keeps names that objects inherit as plain map keys", () => {
  const tags = parse("metric_tags { key: '__proto__' value: 'a' }").metric_tags;
  assert.equal(JSON.stringify(tags), '{"__proto__":"a"}');
});

for (const [text, expected] of [
  ["max_batch_size: @{triton_max_batch_size}", { max_batch_size: 64 }],
  ["max_batch_size: $triton_max_batch_size", { max_batch_size: 64 }],
  ['backend: "@{triton_backend}"', { backend: "tensorrtllm" }],
  ['backend: "@{other}"', { backend: unmasked("@{other}") }],
  ["output { data_type: @{logits_datatype} dims: [-1] }", { output: [{ data_type: "TYPE_FP32", dims: [-1] }] }],
  [
    "dynamic_batching { preferred_batch_size: [ @{triton_max_batch_size} ] }",
    { dynamic_batching: { preferred_batch_size: [64] } },
  ],
  ["model_transaction_policy { decoupled: @{decoupled_mode} }", { model_transaction_policy: { decoupled: false } }],
  [
    "instance_group [ { count: @{bls_instance_count}, kind : KIND_CPU } ]",
    { instance_group: [{ count: 1, kind: "KIND_CPU" }] },
  ],
] as const) {
  test(`parseTextMessage() knows what the placeholder of ${text} stands for`, () => {
    assert.deepEqual(plain(text), expected);
  });
}

test("parseTextMessage() tells of each unfilled placeholder where it is and how to fill it", () => {
  const notes: string[] = [];
  const text = unmasked(
    'name: "x"\nmax_batch_size: @{triton_max_batch_size}\nmodel_transaction_policy { decoupled: @{decoupled_mode} }',
  );
  parseTextMessage(text, "config.pbtxt", "ModelConfig", (note) => notes.push(note));
  assert.deepEqual(notes, [
    unmasked(
      "config.pbtxt:2:17: field 'max_batch_size' has the unfilled template placeholder '@{triton_max_batch_size}': taking 64; fill it with 'nereid fill-template -i config.pbtxt triton_max_batch_size:<value>' or write the value in its place",
    ),
    unmasked(
      "config.pbtxt:3:39: field 'decoupled' has the unfilled template placeholder '@{decoupled_mode}': taking false; fill it with 'nereid fill-template -i config.pbtxt decoupled_mode:<value>' or write the value in its place",
    ),
  ]);
});

const REFUSED: readonly (readonly [string, string])[] = [
  [
    'name: "x"\nmax_batch_size: @{max_batch_size}',
    "config.pbtxt:2:17: field 'max_batch_size' expects an integer, got the unfilled template placeholder '@{max_batch_size}'; fill it with 'nereid fill-template -i config.pbtxt max_batch_size:<value>' or write the value in its place",
  ],
  ["output { data_type: @{t} }", "expects a name, got the unfilled template placeholder '@{t}'"],
  ["dynamic_batching @{d}", "expects a block, got the unfilled template placeholder '@{d}'"],
  ["max_batch_size: -@{n}", "expects an integer, got the unfilled template placeholder '@{n}'"],
  [
    "max_batch_sise: 4",
    "config.pbtxt:1:1: the model configuration has no field 'max_batch_sise'; did you mean 'max_batch_size'?",
  ],
  [
    "preferred_batch_sizes: 4",
    "the model configuration has no field 'preferred_batch_sizes'; its fields are name, platform,",
  ],
  ["priority_levels: 4", "it belongs inside 'dynamic_batching'"],
  ["version_policy { all { x: 1 } }", "'ModelVersionPolicy.All' has no field 'x'; it takes no fields"],
  [
    "input {\n  data_type: TYPE_BYTES\n}",
    "config.pbtxt:2:14: field 'data_type' got 'TYPE_BYTES'; did you mean TYPE_STRING? allowed values are TYPE_INVALID, TYPE_BOOL,",
  ],
  ["input { data_type: TYPE_FLOAT }", "did you mean TYPE_FP32?"],
  ["input { data_type: FP32 }", "did you mean TYPE_FP32?"],
  ["input { data_type: 99 }", "field 'data_type' got '99'; allowed values are"],
  [
    'instance_group { kind: "KIND_CPU" }',
    'got the text "KIND_CPU"; did you mean KIND_CPU? allowed values are KIND_AUTO, KIND_GPU, KIND_CPU, KIND_MODEL (written without quotes)',
  ],
  ["name: x", "field 'name' expects a quoted text, got 'x'; write \"x\""],
  ['max_batch_size: "4"', "field 'max_batch_size' expects an integer, got the text \"4\"; write 4 without quotes"],
  ["max_batch_size: 4.5", "field 'max_batch_size' expects an integer, got '4.5'"],
  [
    "max_batch_size: 2147483648",
    "field 'max_batch_size' takes int32 values from -2147483648 to 2147483647, got 2147483648",
  ],
  ["instance_group { rate_limiter { priority: -1 } }", "takes uint32 values from 0 to 4294967295, got -1"],
  ["input { dims: 9007199254740993 }", "takes int64 values from -9007199254740991 to 9007199254740991"],
  ["input { optional: yes }", "field 'optional' expects true or false, got 'yes'"],
  ["max_batch_size: 4\nmax_batch_size: 8", "config.pbtxt:2:1: field 'max_batch_size' is written more than once"],
  [
    "dynamic_batching { }\nsequence_batching { }",
    "config.pbtxt:2:1: field 'sequence_batching' cannot be written beside 'dynamic_batching': both are members of 'scheduling_choice'",
  ],
  ["name 'x'", "expected ':' after field 'name', got the text \"x\""],
  ["name: [ 'x' ]", "field 'name' expects a quoted text, got '['"],
  ["input [ { name: 'X'", "config.pbtxt:1:20: the file ends inside the block opened at line 1; add the missing '}'"],
  ["input [ { name: 'X' }", "the file ends inside the list opened at line 1; add the missing ']'"],
  ["input { dims: [ 1 2 ] }", "expected ',' or ']' in the list of 'dims', got '2'"],
  ["dynamic_batching: true", "field 'dynamic_batching' expects a block '{ ... }', got 'true'"],
  ["}", "expected the name of a field, got '}'"],
  ["[ext.field]: 1", "expected the name of a field, got '['"],
  ["name: 'x", "this text has no closing quote on its line"],
  [String.raw`name: "\q"`, String.raw`config.pbtxt:1:8: '\q' is no escape sequence`],
  [String.raw`name: "\U00110000"`, "is beyond Unicode"],
  [String.raw`name: "\xff"`, "this text is not valid UTF-8"],
  ["max_batch_size: 12abc", "'12abc' is not a number"],
  ["name: 'x' @", "config.pbtxt:1:11: unexpected character '@'"],
  ["max_batch_size:", "field 'max_batch_size' expects an integer, got the end of the file"],
];

for (const [text, expected] of REFUSED) {
  test(`parseTextMessage() refuses ${JSON.stringify(text)}`, () => {
    assert.throws(
      () => parse(text),
      (error: Error & { code?: string }) =>
        error.code === "invalid_argument" && error.message.includes(unmasked(expected)),
    );
  });
}
