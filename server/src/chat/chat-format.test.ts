import assert from "node:assert/strict";
import test from "node:test";
import type { ChatTool } from "./chat-contract.ts";
import { createChatFormat } from "./chat-format.ts";
import { parsePieces } from "./tools/answer.test-support.ts";

const SOURCE = {
  template: undefined,
  bosToken: undefined,
  eosToken: undefined,
  toolFormat: undefined,
  reasoningFormat: undefined,
};
const TOOLS: readonly ChatTool[] = [{ type: "function", function: { name: "f", description: "Does it." } }];

const FOUND: readonly (readonly [template: string, tools: string, reasoning: string | undefined])[] = [
  ["{{ '<tool_call>' }}{{ '<think>' }}", "hermes", "think"],
  ["<tool_call>\n<function=f>\n<parameter=x>", "qwen3_coder", undefined],
  ["<tool_call>f\n<arg_key>", "glm", undefined],
  ["[TOOL_CALLS]", "mistral", undefined],
  ["[TOOL_CALLS]f[ARGS] [THINK]", "mistral_named", "mistral"],
  ["<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "deepseek_v3", undefined],
  ["<｜tool▁call▁begin｜>f<｜tool▁sep｜> </think>", "deepseek_v31", "think"],
  ["<|start_header_id|>ipython", "llama3_json", undefined],
  ["<|channel|>commentary to=functions.f", "gpt_oss", "gpt_oss"],
  ["{{ messages[0].content }}", "json", undefined],
];

for (const [template, tools, reasoning] of FOUND) {
  test(`${JSON.stringify(template)} writes calls as ${tools} and reasons as ${reasoning}`, () => {
    const format = createChatFormat({ ...SOURCE, template });
    assert.deepEqual([format.tools.name, format.reasoning?.name], [tools, reasoning]);
  });
}

test("names from the configuration go before what the template shows; unknown ones are refused", () => {
  const format = createChatFormat({
    ...SOURCE,
    template: "<tool_call> <think>",
    toolFormat: "mistral",
    reasoningFormat: "none",
  });
  assert.deepEqual([format.tools.name, format.reasoning], ["mistral", undefined]);
  const expected = { code: "invalid_argument", message: /^tool_format: expected hermes, .*, got nosuch$/ };
  assert.throws(() => createChatFormat({ ...SOURCE, toolFormat: "nosuch" }), expected);
  assert.throws(() => createChatFormat({ ...SOURCE, reasoningFormat: "nosuch" }), {
    message: /^reasoning_format: expected think, .*, got nosuch$/,
  });
});

test("reasoning comes before calls, and choice `none` leaves calls as text", () => {
  const format = createChatFormat({ ...SOURCE, template: "<tool_call> <think>" });
  const answer = '<think>\nLook it up.\n</think>\n\n<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>';
  const parse = (choice: "auto" | "none") =>
    parsePieces(format.openParser({ prompt: "", tools: TOOLS, choice }), [...answer]);
  assert.deepEqual(parse("auto"), { text: "", reasoning: "Look it up.", calls: [{ name: "f", arguments: {} }] });
  assert.deepEqual(parse("none").calls, []);
  assert.match(parse("none").text, /^<tool_call>/);
});

test("a template without tools gets their description, and earlier calls as text", async () => {
  const format = createChatFormat({
    ...SOURCE,
    template: "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}",
  });
  const prompt = await format.template?.render({
    messages: [
      { role: "user", content: "Do it." },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: { a: 1 } } }],
      },
      { role: "tool", content: "done", tool_call_id: "1" },
    ],
    tools: TOOLS,
    addGenerationPrompt: true,
  });
  assert.match(prompt ?? "", /^<system>You can call these functions.*\{"name":"f","description":"Does it\."\}/s);
  assert.match(
    prompt ?? "",
    /<assistant><tool_call>\{"name":"f","arguments":\{"a":1\}\}<\/tool_call><user><tool_response>done/,
  );
});
