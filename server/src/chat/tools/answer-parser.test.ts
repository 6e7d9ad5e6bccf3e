import assert from "node:assert/strict";
import test from "node:test";
import type { ChatTool } from "../chat-contract.ts";
import { HarmonyParser } from "../harmony.ts";
import { type Call, parsePieces, pieces, seeded, written } from "./answer.test-support.ts";
import { AnswerParser } from "./answer-parser.ts";
import { TOOL_ROWS } from "./tool-rows.ts";

const TOOLS: readonly ChatTool[] = [
  {
    type: "function",
    function: {
      name: "get_weather",
      parameters: {
        type: "object",
        properties: {
          city: { type: "string" },
          days: { type: "integer" },
          ok: { type: "boolean" },
          list: { type: "array" },
          nested: { type: "object" },
        },
      },
    },
  },
  { type: "function", function: { name: "no_arguments" } },
  { type: "function", function: { name: "write-file", parameters: { properties: { text: { type: "string" } } } } },
];

const CITY = 'Paris, "é\u{1f600}"';
const ANSWERS: readonly (readonly Call[])[] = [
  [{ name: "get_weather", arguments: { city: CITY, days: 3 } }],
  [{ name: "no_arguments", arguments: {} }],
  [{ name: "get_weather", arguments: { list: [1, { a: "}" }, "]"], nested: { x: { y: null } }, ok: false } }],
  [{ name: "write-file", arguments: { text: 'a < b && c > d\n\tif (x) { y("z") }\n' } }],
  [
    { name: "get_weather", arguments: { city: "A" } },
    { name: "no_arguments", arguments: {} },
    { name: "get_weather", arguments: { days: 1, city: "B" } },
  ],
];

for (const row of TOOL_ROWS) {
  test(`${row.name}: calls are read back, in any pieces`, () => {
    const random = seeded(7);
    for (const calls of ANSWERS) {
      const text = written(row, calls);
      for (const meanLength of [1, 2, 5, 20, 1000]) {
        const parser = row.name === "gpt_oss" ? new HarmonyParser(TOOLS) : new AnswerParser(row, TOOLS);
        const parsed = parsePieces(parser, pieces(text, random, meanLength));
        assert.deepEqual(parsed, { text: "", reasoning: "", calls }, text);
      }
    }
  });

  test(`${row.name}: text without calls stays as it is, in any pieces`, () => {
    const texts = [
      "",
      "plain",
      " a\n\n<b> [1, 2] {x} ",
      "<tool",
      "a < b <",
      "[",
      "{",
      '{"a": 1}',
      "[f(",
      "[see](url)",
      "```tool_code",
      "x [TOOL",
    ];
    const random = seeded(8);
    for (const text of texts) {
      for (const meanLength of [1, 3, 1000]) {
        const parsed = parsePieces(new AnswerParser(row, TOOLS), pieces(text, random, meanLength));
        assert.deepEqual(parsed, { text, reasoning: "", calls: [] }, text);
      }
    }
  });
}

const MARKED = TOOL_ROWS.filter((row) => row.form.open !== "" && row.name !== "gpt_oss");

for (const row of MARKED) {
  test(`${row.name}: text before and behind calls stays, white space beside them goes`, () => {
    const [calls = []] = ANSWERS;
    const random = seeded(9);
    for (const meanLength of [1, 4, 1000]) {
      const text = `Let me see.\n\n${written(row, calls)}\n`;
      const parsed = parsePieces(new AnswerParser(row, TOOLS), pieces(text, random, meanLength));
      assert.deepEqual(parsed, { text: "Let me see.", reasoning: "", calls });
    }
  });

  test(`${row.name}: a call that breaks off never makes the parser fail`, () => {
    const [calls = []] = ANSWERS;
    const text = written(row, calls);
    for (let length = 0; length <= text.length; length += 1) {
      const parser = new AnswerParser(row, TOOLS);
      const deltas = [...parser.push(text.slice(0, length)), ...parser.end()];
      const starts = deltas.filter(({ type }) => type === "tool-call-start").length;
      assert.equal(deltas.filter(({ type }) => type === "tool-call-end").length, starts, text.slice(0, length));
      const shown = deltas.map((delta) => (delta.type === "text" ? delta.text : "")).join("");
      assert.ok(starts > 0 || text.includes(shown), shown);
    }
  });
}

const LENIENT: readonly (readonly [row: string, text: string, calls: readonly Call[]])[] = [
  ["hermes", '<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call>', [{ name: "f", arguments: { a: 1 } }]],
  ["hermes", '<tool_call>\n{"name": "f", "arguments": "{\\"a\\": 1}"}', [{ name: "f", arguments: { a: 1 } }]],
  ["hermes", '<tool_call>{"name": "f"}</tool_call>', [{ name: "f", arguments: {} }]],
  ["llama3_json", '<|python_tag|>{"name": "f", "parameters": {}}', [{ name: "f", arguments: {} }]],
  [
    "llama3_json",
    ' {"name": "f", "parameters": {}}; {"name": "g", "parameters": {"x": 2}}',
    [
      { name: "f", arguments: {} },
      { name: "g", arguments: { x: 2 } },
    ],
  ],
  [
    "mistral",
    '[TOOL_CALLS] [{"name": "f", "arguments": {"a": [1]}, "id": "123456789"}]',
    [{ name: "f", arguments: { a: [1] } }],
  ],
  ["mistral_named", '[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{"a": 1}', [{ name: "f", arguments: { a: 1 } }]],
  ["qwen3_coder", "<tool_call>\n<function=f>\n</function>\n</tool_call>", [{ name: "f", arguments: {} }]],
  [
    "glm",
    "<tool_call>get_weather<arg_key>city</arg_key><arg_value>X</arg_value></tool_call>",
    [{ name: "get_weather", arguments: { city: "X" } }],
  ],
  [
    "llama3_pythonic",
    "<|python_start|>[f(a='it\\'s', b=(1, 2), c={'k': None}, d=-1.5e3)]<|python_end|>",
    [{ name: "f", arguments: { a: "it's", b: [1, 2], c: { k: null }, d: -1500 } }],
  ],
];

for (const [name, text, calls] of LENIENT) {
  test(`${name}: reads ${text}`, () => {
    const row = TOOL_ROWS.find((one) => one.name === name);
    assert.ok(row !== undefined);
    assert.deepEqual(parsePieces(new AnswerParser(row, TOOLS), [...text]).calls, calls);
  });
}

test("harmony: channels become reasoning, text and calls", () => {
  const text =
    "<|channel|>analysis<|message|>Think < hard.<|end|><|start|>assistant<|channel|>commentary<|message|>I look it up.<|end|>" +
    '<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>';
  for (const meanLength of [1, 5, 1000]) {
    const parsed = parsePieces(new HarmonyParser(TOOLS), pieces(text, seeded(1), meanLength));
    assert.deepEqual(parsed, {
      text: "I look it up.",
      reasoning: "Think < hard.",
      calls: [{ name: "f", arguments: { a: 1 } }],
    });
  }
  const final = "<|channel|>final<|message|>Hello<|return|>";
  assert.deepEqual(parsePieces(new HarmonyParser([]), [final]), { text: "Hello", reasoning: "", calls: [] });
  const other = '<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{"b":2}<|call|>';
  assert.deepEqual(parsePieces(new HarmonyParser([]), [other]).calls, [{ name: "f", arguments: { b: 2 } }]);
});
