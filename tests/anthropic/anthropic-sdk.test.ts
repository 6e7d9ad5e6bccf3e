/** Anthropic's own client against the server, unchanged: messages, streams, tools, thinking, counts and errors. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import Anthropic, { APIError } from "@anthropic-ai/sdk";
import { EXAMPLES, type ModelRepository } from "../support/model-repository.ts";
import { createScriptedChat } from "../support/scripted-chat.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const LLM = "tensorrt_llm";
const SCRIPT = "script";
const QUESTION = [{ role: "user" as const, content: "Hello" }];
/** The newest types have no sampling; programs still send it. */
const GREEDY: object = { temperature: 0 };
/** The example model answers the question so. */
const TEXT = " Answer:\n\nThe \"Milady's G";
const CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>';
const TOOLS: Anthropic.Tool[] = [
  {
    name: "get_weather",
    description: "Weather of a city",
    input_schema: { type: "object", properties: { city: { type: "string" }, days: { type: "integer" } } },
  },
];
let scripted: ModelRepository;
let server: ServerProcess;
let client: Anthropic;

before(async () => {
  scripted = await createScriptedChat();
  server = await startServerProcess({ repositories: [EXAMPLES, scripted.path] });
  client = new Anthropic({ apiKey: "none", baseURL: server.baseUrl, maxRetries: 0 });
});

after(async () => {
  await server?.stop();
  await scripted?.[Symbol.asyncDispose]();
});

type Body = Anthropic.MessageCreateParamsNonStreaming;

function say(text: string, more: Partial<Body> = {}): Body {
  return { model: SCRIPT, max_tokens: 500, messages: [{ role: "user", content: `say:${text}` }], ...more };
}

/** The prompt that the model gets for a request. */
async function promptOf(body: Partial<Body>): Promise<string> {
  const answer = await client.messages.create({ model: SCRIPT, max_tokens: 500, messages: [], ...body });
  return answer.content.map((block) => (block.type === "text" ? block.text : "")).join("");
}

async function errorOf(promise: Promise<unknown>): Promise<APIError> {
  const error = await promise.then(
    () => assert.fail("no error"),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof APIError, String(error));
  return error;
}

test("messages.create() answers with counts and the reason of the end", async () => {
  const answer = await client.messages.create({ model: LLM, max_tokens: 12, messages: QUESTION, ...GREEDY });
  assert.deepEqual(answer.content, [{ type: "text", text: TEXT }]);
  assert.deepEqual([answer.type, answer.role, answer.model], ["message", "assistant", LLM]);
  assert.deepEqual([answer.stop_reason, answer.stop_sequence], ["max_tokens", null]);
  const { input_tokens: input, cache_read_input_tokens: cached, output_tokens: output } = answer.usage;
  assert.deepEqual([input + (cached ?? 0), output], [6, 12]);
  assert.match(answer.id, /^msg_[0-9a-f]{32}$/);
  assert.match(answer._request_id ?? "", /^req_[0-9a-f]{32}$/);
});

test("a stream adds up to the whole message", async () => {
  const body = { model: LLM, max_tokens: 12, messages: QUESTION, ...GREEDY };
  const whole = await client.messages.create(body);
  const stream = client.messages.stream(body);
  const types = new Set<string>();
  for await (const event of stream) types.add(event.type);
  const final = await stream.finalMessage();
  assert.deepEqual(final.content, whole.content);
  assert.equal(final.stop_reason, "max_tokens");
  assert.equal(final.usage.output_tokens, 12);
  assert.deepEqual(
    [...types],
    [
      "message_start",
      "content_block_start",
      "content_block_delta",
      "content_block_stop",
      "message_delta",
      "message_stop",
    ],
  );
});

test("a stop sequence ends the message and is named, streamed or not", async () => {
  const body = { model: LLM, max_tokens: 50, messages: QUESTION, ...GREEDY, stop_sequences: ["none", "Milady"] };
  for (const answer of [await client.messages.create(body), await client.messages.stream(body).finalMessage()]) {
    assert.deepEqual([answer.stop_reason, answer.stop_sequence], ["stop_sequence", "Milady"]);
    assert.deepEqual(answer.content, [{ type: "text", text: ' Answer:\n\nThe "' }]);
  }
});

test("calls of tools become blocks, streamed or not, behind the text in front of them", async () => {
  const body = say(`Let me look.\n${CALL}\n${CALL}`, { tools: TOOLS });
  for (const answer of [await client.messages.create(body), await client.messages.stream(body).finalMessage()]) {
    const [text, ...calls] = answer.content;
    assert.deepEqual(text?.type === "text" ? text.text.trim() : text, "Let me look.");
    assert.deepEqual(
      calls.map((block) => (block.type === "tool_use" ? [block.name, block.input] : block.type)),
      [
        ["get_weather", { city: "Paris", days: 2 }],
        ["get_weather", { city: "Paris", days: 2 }],
      ],
    );
    const ids = new Set(calls.map((block) => (block.type === "tool_use" ? block.id : "")));
    assert.equal(ids.size, 2);
    assert.equal(answer.stop_reason, "tool_use");
  }
});

test("without tools, and with tool_choice none, a call is text", async () => {
  for (const more of [{}, { tools: TOOLS, tool_choice: { type: "none" as const } }]) {
    const answer = await client.messages.create(say(CALL, more));
    assert.deepEqual(answer.content, [{ type: "text", text: CALL }]);
    assert.equal(answer.stop_reason, "end_turn");
  }
});

test("tools, calls and results reach the template, and tools that Anthropic runs do not", async () => {
  const prompt = await promptOf({
    system: [
      { type: "text", text: "x-anthropic-billing-header: cc_version=1; cch=abc" },
      { type: "text", text: "Be brief." },
    ],
    tools: [...TOOLS, { type: "web_search_20250305", name: "web_search" }, { type: "bash_20250124", name: "bash" }],
    messages: [
      { role: "user", content: "Weather?" },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "hm", signature: "s" },
          { type: "text", text: "I look." },
          { type: "tool_use", id: "t1", name: "get_weather", input: { city: "Paris" } },
          { type: "tool_use", id: "t2", name: "get_weather", input: {} },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "t1", content: "sunny" },
          { type: "tool_result", tool_use_id: "t2", content: [{ type: "text", text: "no city" }], is_error: true },
        ],
      },
      { role: "user", content: [{ type: "text", text: "show prompt" }] },
    ],
  });
  const [weather, bash, ...lines] = prompt.split("\n");
  assert.match(weather ?? "", /^tool get_weather \{.*"city"/);
  assert.match(bash ?? "", /^tool bash \{.*"command"/);
  assert.deepEqual(lines, [
    "<|system|>Be brief.",
    "<|user|>Weather?",
    '<|assistant|>I look.[{"name": "get_weather", "arguments": {"city": "Paris"}}][{"name": "get_weather", "arguments": {}}]',
    "<|tool|>get_weathersunny",
    "<|tool|>get_weatherError: no city",
    "<|user|>show prompt",
    "<|assistant|>thinking=False images=0",
  ]);
});

test("images of messages and of results go to the model in their order", async () => {
  const image = (data: string) =>
    ({ type: "image", source: { type: "base64", media_type: "image/png", data } }) satisfies Anthropic.ImageBlockParam;
  const prompt = await promptOf({
    messages: [
      { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "photo", input: {} }] },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "t1", content: [{ type: "text", text: "taken" }, image("AAAA")] },
          { type: "text", text: "and " },
          image("BBBB"),
          { type: "text", text: "show prompt" },
        ],
      },
    ],
  });
  assert.deepEqual(prompt.split("\n").slice(1), [
    "<|tool|>phototaken",
    "<|user|><image>and <image>show prompt",
    "<|assistant|>thinking=False images=2",
  ]);
});

test("thinking comes as a block when it is on, without text when omitted, and not at all when off", async () => {
  const text = "<think>Two and two.</think>Four.";
  const thinking = { type: "enabled" as const, budget_tokens: 1024 };
  const answers = async (more: Partial<Body>) => {
    const body = say(text, { max_tokens: 2000, ...more });
    return [await client.messages.create(body), await client.messages.stream(body).finalMessage()];
  };
  for (const { content } of await answers({ thinking })) {
    const [first, second] = content;
    assert.equal(first?.type === "thinking" && first.thinking, "Two and two.");
    assert.match(first?.type === "thinking" ? first.signature : "", /^[\w+/]{43}=$/);
    assert.deepEqual(second, { type: "text", text: "Four." });
  }
  for (const { content } of await answers({ thinking: { ...thinking, display: "omitted" } })) {
    const [first] = content;
    assert.equal(first?.type === "thinking" && first.thinking, "");
    assert.equal(content.length, 2);
  }
  for (const { content } of [...(await answers({})), ...(await answers({ thinking: { type: "disabled" } }))]) {
    assert.deepEqual(content, [{ type: "text", text: "Four." }]);
  }
});

test("thinking ends at its budget, and the answer follows", async () => {
  const thinking = { type: "enabled" as const, budget_tokens: 1024 };
  const body = say(`<think>${"word ".repeat(2000)}</think>Four.`, { max_tokens: 5000, thinking });
  for (const answer of [await client.messages.create(body), await client.messages.stream(body).finalMessage()]) {
    const [first, second] = answer.content;
    // A chunk of three characters counts as a token: the model has no tokenizer.
    assert.equal(
      first?.type === "thinking" && first.thinking,
      "word "
        .repeat(2000)
        .slice(0, 3 * 1024 - 7)
        .trim(),
    );
    assert.deepEqual(second, { type: "text", text: "Enough." });
  }
});

test("models.list() and models.retrieve() name the models", async () => {
  const ids: string[] = [];
  for await (const { id, type } of client.models.list()) if (type === "model") ids.push(id);
  for (const id of [LLM, SCRIPT]) assert.ok(ids.includes(id), `no ${id}`);
  const one = await client.models.retrieve(SCRIPT);
  assert.deepEqual([one.id, one.type, one.display_name], [SCRIPT, "model", SCRIPT]);
  assert.ok(!Number.isNaN(Date.parse(one.created_at)));
});

test("the template learns whether thinking is on", async () => {
  const messages = [{ role: "user" as const, content: "show prompt" }];
  assert.match(await promptOf({ messages, thinking: { type: "adaptive" } }), /thinking=True/);
  assert.match(await promptOf({ messages, thinking: { type: "disabled" } }), /thinking=False/);
});

test("a last message of the assistant goes on", async () => {
  const messages = [
    { role: "user" as const, content: "say:one" },
    { role: "assistant" as const, content: "two say:three" },
  ];
  const answer = await client.messages.create({ model: SCRIPT, max_tokens: 50, messages });
  assert.deepEqual(answer.content, [{ type: "text", text: "three" }]);
});

test("output_config.format makes the answer JSON", { timeout: 600_000 }, async () => {
  const schema = { type: "object", properties: { a: { enum: [1, 2] } }, required: ["a"], additionalProperties: false };
  const answer = await client.messages.create({
    model: LLM,
    max_tokens: 100,
    messages: QUESTION,
    output_config: { format: { type: "json_schema", schema } },
  });
  const [block] = answer.content;
  const value: unknown = JSON.parse(block?.type === "text" ? block.text : "");
  assert.ok([1, 2].includes(Reflect.get(Object(value), "a")));
});

test("countTokens() counts what create() would take", async () => {
  assert.deepEqual(await client.messages.countTokens({ model: LLM, messages: QUESTION }), { input_tokens: 6 });
});

/** Cases of "Errors" in Anthropic's reference: status, type, and text of the message. */
const ERRORS: readonly (readonly [
  what: string,
  body: Record<string, unknown>,
  status: number,
  type: string,
  text: RegExp,
])[] = [
  ["an unknown model", { model: "claude-none" }, 404, "not_found_error", /claude-none/],
  ["no max_tokens", { max_tokens: undefined }, 400, "invalid_request_error", /max_tokens/],
  ["no messages", { messages: [] }, 400, "invalid_request_error", /messages/],
  [
    "a wrong role",
    { messages: [{ role: "robot", content: "x" }] },
    400,
    "invalid_request_error",
    /Invalid value: 'robot'/,
  ],
  [
    "a message without content",
    { messages: [{ role: "user" }] },
    400,
    "invalid_request_error",
    /messages\[0\].content/,
  ],
  ["a temperature that is too high", { temperature: 1.5 }, 400, "invalid_request_error", /temperature/],
  [
    "a block of an unknown type",
    { messages: [{ role: "user", content: [{ type: "smell" }] }] },
    400,
    "invalid_request_error",
    /messages\[0\].content\[0\].type.*smell/,
  ],
  [
    "a document that is no text",
    { messages: [{ role: "user", content: [{ type: "document", source: { type: "base64" } }] }] },
    400,
    "invalid_request_error",
    /source.type/,
  ],
  ["a tool without a schema", { tools: [{ name: "a" }] }, 400, "invalid_request_error", /tools\[0\].input_schema/],
  [
    "a choice of a tool that is not offered",
    { tools: TOOLS, tool_choice: { type: "tool", name: "b" } },
    400,
    "invalid_request_error",
    /Tool 'b' not found/,
  ],
  ["any tool where there is none", { tool_choice: { type: "any" } }, 400, "invalid_request_error", /tool_choice/],
  [
    "a budget above max_tokens",
    { thinking: { type: "enabled", budget_tokens: 2000 } },
    400,
    "invalid_request_error",
    /max_tokens.*budget_tokens/,
  ],
  [
    "a prompt that is too long",
    { messages: [{ role: "user", content: "word ".repeat(3000) }] },
    400,
    "invalid_request_error",
    /^prompt is too long: \d{4} tokens > 2048 maximum$/,
  ],
  [
    "an image for a model without an input for it",
    { messages: [{ role: "user", content: [{ type: "image", source: { type: "url", url: "https://a/b.png" } }] }] },
    400,
    "invalid_request_error",
    /messages/,
  ],
];

for (const [what, changes, status, type, text] of ERRORS) {
  test(`${what} is refused in Anthropic's form: ${status}, ${type}`, async () => {
    const body = { model: LLM, messages: QUESTION, max_tokens: 4, ...changes };
    const error = await errorOf(client.messages.create(body as Body));
    assert.equal(error.status, status);
    const parsed = error.error as { type?: string; error?: { type?: string; message?: string }; request_id?: string };
    assert.deepEqual([parsed.type, parsed.error?.type], ["error", type]);
    assert.match(parsed.error?.message ?? "", text);
    assert.equal(parsed.request_id, error.requestID);
  });
}

test("unknown fields, beta headers and queries are ignored", async () => {
  const response = await fetch(`${server.baseUrl}/v1/messages?beta=true`, {
    method: "POST",
    headers: { "anthropic-beta": "fine-grained-tool-streaming-2025-05-14", "anthropic-version": "2023-06-01" },
    body: JSON.stringify({ ...say("yes"), context_management: { edits: [] }, color: "red", container: null }),
  });
  assert.equal(response.status, 200);
  assert.match(await response.text(), /"text":"yes"/);
});
