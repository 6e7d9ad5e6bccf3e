// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of templates are what is tested
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { fillTemplate, listKeys } from "./fill-template.ts";
import { fillPlaceholders, findPlaceholders } from "./template-text.ts";
import { parseTemplateValues } from "./template-values.ts";

/** The stock script's work on a text, in its own language. */
const STOCK = `
import json, sys
from string import Template
def split(text, delimiter):
    parts, part, escaped = [], "", False
    for c in text:
        if escaped: part, escaped = part + c, False
        elif c == delimiter: parts, part = parts + [part], ""
        elif c == "\\\\": escaped = True
        else: part += c
    return parts + [part]
results = []
for template, substitutions in json.load(sys.stdin):
    values = {"max_queue_size": 0, "max_queue_delay_microseconds": 0}
    for entry in split(substitutions, ","):
        key, value = split(entry, ":")
        values[key] = value
    results.append(Template(template).safe_substitute(values))
json.dump(results, sys.stdout)
`;

const STOCK_LINES: readonly [string, string][] = [
  ["max_batch_size: ${a}", "a:16"],
  ['string_value: "${a}"', "a:/models/llama"],
  ["$a and ${a} and $ab and ${b}", "a:1"],
  ["$$a $$$a $$ $$$$ ${$a}", "a:1"],
  ["$ $1 ${} ${a b} ${1a} $-a ${a", "a:1"],
  ["${A} ${a} $A1 $_a ${_A}", "A:1,a:2,_a:3,_A:4,A1:5"],
  ["${a}", "a:1,a:2"],
  ["${a}", "a: padded "],
  ["${a}", "a:"],
  ["${a}", "a:$b ${b} $$"],
  ["${a} ${b}", "a:1\\,2,b:x"],
  ["${a}", "a:s3\\\\://bucket/x"],
  ["${a}", "a:back\\\\\\\\slash"],
  ["${a}", "a://engines"],
  ["${max_queue_size} ${max_queue_delay_microseconds}", "a:1"],
  ["${max_queue_size}", "max_queue_size:7"],
  ["préfixe ${a} $é ${é} $aé ſ$ſ $K", "a:valeur-é"],
  ["line\n${a}\n\n", "a:x"],
];

test("fillTemplate() gives the bytes of the stock script for all that it understands", () => {
  const input = JSON.stringify(STOCK_LINES);
  const expected: unknown = JSON.parse(execFileSync("python3", ["-c", STOCK], { input, encoding: "utf8" }));
  assert.deepEqual(
    STOCK_LINES.map(([template, text]) => fillTemplate(template, text).text),
    expected,
  );
});

test("fillPlaceholders() agrees with string.Template on random texts of its characters", () => {
  const pieces = ["$", "${", "}", "a", "B", "_", "1", " ", "$$", "${a}", "$a", "\n", "é", "-"];
  let state = 12345;
  const random = (below: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return (state >>> 8) % below;
  };
  const cases = Array.from({ length: 2000 }, (): [string, string] => {
    const template = Array.from({ length: random(12) }, () => pieces[random(pieces.length)] ?? "").join("");
    return [template, "a:1,B:<$a>,_:u,aB:two,a1:three"];
  });
  const expected: unknown = JSON.parse(
    execFileSync("python3", ["-c", STOCK], { input: JSON.stringify(cases), encoding: "utf8" }),
  );
  const values = parseTemplateValues("a:1,B:<$a>,_:u,aB:two,a1:three", () => true).values;
  assert.deepEqual(
    cases.map(([template]) => fillPlaceholders(template, values)),
    expected,
  );
});

const VALUES: readonly [string, Record<string, string>][] = [
  ["a:http://host:8000/x", { a: "http://host:8000/x" }],
  ["a:s3://x/y,b:2", { a: "s3://x/y", b: "2" }],
  ["a:0,1,2", { a: "0,1,2" }],
  ["a:0,1;2,3,b:4", { a: "0,1;2,3", b: "4" }],
  ["a:s3://x,s3://y,b:1", { a: "s3://x,s3://y", b: "1" }],
  ["a:{0},{0,0},b:1", { a: "{0},{0,0}", b: "1" }],
  ["a:C\\:\\\\x", { a: "C:x" }],
  ["a:/p/with space/q,b:", { a: "/p/with space/q", b: "" }],
  ["a:x=1,y=2", { a: "x=1,y=2" }],
];

test("parseTemplateValues() takes values with colons, commas and paths", () => {
  const read = VALUES.map(([text]) =>
    Object.fromEntries(parseTemplateValues(text, (key) => "ab".includes(key)).values),
  );
  assert.deepEqual(
    read,
    VALUES.map(([, values]) => values),
  );
});

test("parseTemplateValues() takes a scheme for a key when the template has such a key", () => {
  const { values } = parseTemplateValues("a:x,s3://y", (key) => key === "s3");
  assert.deepEqual(
    [...values],
    [
      ["a", "x"],
      ["s3", "//y"],
    ],
  );
});

for (const [text, expected] of [
  ["", /empty entry in ''/],
  ["a:1,", /empty entry in 'a:1,'/],
  ["a:1,,b:2", /empty entry/],
  ["a=1", /'a=1' is no entry: expected key:value/],
  ["1,a:2", /'1' is no entry/],
] as const) {
  test(`parseTemplateValues() refuses '${text}'`, () => {
    assert.throws(() => parseTemplateValues(text, () => false), expected);
  });
}

test("parseTemplateValues() warns of a key that is given twice", () => {
  assert.deepEqual(parseTemplateValues("a:1,a:2", () => true).warnings, ["'a' is given twice: the last value counts"]);
});

const TEMPLATE = `max_batch_size: \${triton_max_batch_size} # \${comment}
parameters { key: "gpt_model_path" value: { string_value: "\${engine_dir}" } }
parameters { key: "max_beam_width" value: { string_value: '\${max_beam_width}' } }
dynamic_batching { max_queue_delay_microseconds: \${max_queue_delay_microseconds} }
`;

test("fillTemplate() names what is unknown, with the nearest key, and what is left with its line", () => {
  const { filled, unknown, unfilled } = fillTemplate(TEMPLATE, "triton_max_batchsize:4,engine_dir:/e,zzz:1");
  assert.deepEqual(filled, ["engine_dir"]);
  assert.deepEqual(unknown, [
    { key: "triton_max_batchsize", nearest: "triton_max_batch_size" },
    { key: "zzz", nearest: undefined },
  ]);
  assert.deepEqual(
    unfilled.map(({ name, line }) => [name, line]),
    [
      ["triton_max_batch_size", 1],
      ["max_beam_width", 3],
    ],
  );
});

test("fillTemplate() changes nothing and complains of nothing when run a second time", () => {
  const line = "triton_max_batch_size:4,engine_dir:/models/e,max_beam_width:1";
  const first = fillTemplate(TEMPLATE, line);
  const second = fillTemplate(first.text, line);
  assert.equal(second.text, first.text);
  assert.deepEqual([second.unknown, second.unfilled, second.filled], [[], [], []]);
});

test("fillTemplate() still names a wrong key on a file that was filled with other values", () => {
  const { text } = fillTemplate(TEMPLATE, "triton_max_batch_size:4,engine_dir:/e,max_beam_width:1");
  assert.deepEqual(
    fillTemplate(text, "engin_dir:/elsewhere").unknown.map(({ key }) => key),
    ["engin_dir"],
  );
});

test("findPlaceholders() tells texts from values and leaves comments out", () => {
  const found = findPlaceholders(`a: \${x} "\${y}" 'it"s \${z}' "\\"\${w}" # \${no}\nb: "#\${u}" $v`);
  assert.deepEqual(
    found.map(({ name, line, isQuoted }) => [name, line, isQuoted]),
    [
      ["x", 1, false],
      ["y", 1, true],
      ["z", 1, true],
      ["w", 1, true],
      ["u", 2, true],
      ["v", 2, false],
    ],
  );
});

test("listKeys() shows each key once, with its lines and what holds when it stays unfilled", () => {
  assert.deepEqual(listKeys(`${TEMPLATE}x: "\${engine_dir}"`), [
    { name: "triton_max_batch_size", lines: [1], byDefault: "64", kind: "value" },
    { name: "engine_dir", lines: [2, 5], byDefault: undefined, kind: "text" },
    { name: "max_beam_width", lines: [3], byDefault: undefined, kind: "text" },
    { name: "max_queue_delay_microseconds", lines: [4], byDefault: "0", kind: "value" },
  ]);
});
