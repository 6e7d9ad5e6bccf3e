/** Tools, reasoning and default sampling by OpenAI's own client, against a model that answers by rule and one that knows nothing. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { EXAMPLES, type ModelRepository } from "../support/model-repository.ts";
import { createScriptedChat } from "../support/scripted-chat.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { createScriptedModels } from "./scripted-models.ts";

const TOOLS = [
  {
    type: "function" as const,
    function: {
      name: "get_weather",
      description: "Weather of a town",
      strict: true,
      parameters: {
        type: "object",
        properties: { town: { enum: ["Oslo", "Rome"] }, days: { type: "integer", minimum: 1, maximum: 9 } },
        required: ["town", "days"],
        additionalProperties: false,
      },
    },
  },
];
const CALL = '{"name": "get_weather", "arguments": {"town": "Oslo", "days": 2}}';
let scripted: ModelRepository;
let chats: ModelRepository;
let server: ServerProcess;
let client: OpenAI;

before(async () => {
  scripted = await createScriptedModels();
  chats = await createScriptedChat();
  server = await startServerProcess({ repositories: [EXAMPLES, scripted.path, chats.path] });
  client = new OpenAI({ apiKey: "none", baseURL: `${server.baseUrl}/v1`, maxRetries: 0 });
});

after(async () => {
  await server?.stop();
  await scripted?.[Symbol.asyncDispose]();
  await chats?.[Symbol.asyncDispose]();
});

const say = (text: string) => [{ role: "user" as const, content: `say:${text}` }];

test("a call in the text of a model becomes a tool call", async () => {
  const messages = say(`Let me see. <tool_call>${CALL}</tool_call>`);
  const answer = await client.chat.completions.create({ model: "caller", messages, tools: TOOLS });
  const [choice] = answer.choices;
  assert.equal(choice?.finish_reason, "tool_calls");
  assert.equal(choice.message.content?.trim(), "Let me see.");
  const [call] = choice.message.tool_calls ?? [];
  assert.equal(call?.type, "function");
  assert.equal(call.function.name, "get_weather");
  assert.deepEqual(JSON.parse(call.function.arguments), { town: "Oslo", days: 2 });
});

test("a streamed call arrives as the client's accumulator expects it", async () => {
  const messages = say(`<tool_call>${CALL}</tool_call>`);
  const stream = client.chat.completions.stream({ model: "caller", messages, tools: TOOLS });
  const done: string[] = [];
  stream.on("tool_calls.function.arguments.done", ({ name, arguments: text }) => {
    done.push(`${name} ${text}`);
  });
  const final = await stream.finalChatCompletion();
  const [call] = final.choices[0]?.message.tool_calls ?? [];
  assert.equal(call?.type, "function");
  assert.equal(call.function.name, "get_weather");
  assert.deepEqual(JSON.parse(call.function.arguments), { town: "Oslo", days: 2 });
  assert.equal(done.length, 1);
});

test("runTools() calls the function and sends its result back", async () => {
  const seen: unknown[] = [];
  const runner = client.chat.completions.runTools({
    model: "caller",
    messages: say(`<tool_call>${CALL}</tool_call>`),
    max_completion_tokens: 100,
    tools: [
      {
        type: "function",
        function: {
          ...TOOLS[0]?.function,
          parse: JSON.parse,
          // The model repeats its last instruction: the result gives it another one.
          function: (args: unknown) => {
            seen.push(args);
            return "say: It rains.";
          },
        },
      } as never,
    ],
  });
  const content = await runner.finalContent();
  assert.match(content ?? "", /It rains\./);
  assert.deepEqual(seen, [{ town: "Oslo", days: 2 }]);
});

test("reasoning is split off, streamed or not", async () => {
  const messages = say("<think>first this</think>then that");
  const whole = await client.chat.completions.create({ model: "caller", messages });
  const message = whole.choices[0]?.message;
  assert.equal(message?.content?.trim(), "then that");
  assert.equal(Reflect.get(message ?? {}, "reasoning_content"), "first this");
  let reasoning = "";
  let text = "";
  for await (const { choices } of await client.chat.completions.create({ model: "caller", messages, stream: true })) {
    const delta = choices[0]?.delta;
    reasoning += String(Reflect.get(delta ?? {}, "reasoning_content") ?? "");
    text += delta?.content ?? "";
  }
  assert.deepEqual([reasoning, text.trim()], ["first this", "then that"]);
});

test("thinking_token_budget closes the reasoning, and the answer follows, streamed or not", async () => {
  // The model writes three characters at a time, and answers "Enough." behind a reasoning that was cut off.
  const messages = say(`<think>${"word ".repeat(200)}</think>Four.`);
  const read = async (budget: number): Promise<readonly (readonly [reasoning: string, text: string])[]> => {
    const body = { model: "script", messages, thinking_token_budget: budget };
    const whole = (await client.chat.completions.create(body)).choices[0]?.message;
    let [reasoning, text] = ["", ""];
    for await (const { choices } of await client.chat.completions.create({ ...body, stream: true })) {
      reasoning += String(Reflect.get(choices[0]?.delta ?? {}, "reasoning_content") ?? "");
      text += choices[0]?.delta.content ?? "";
    }
    return [
      [String(Reflect.get(whole ?? {}, "reasoning_content")), whole?.content ?? ""],
      [reasoning, text],
    ];
  };
  // "<think>" is cut into three chunks; the fourth to the tenth hold 23 characters of the reasoning.
  const cut = "word ".repeat(5).slice(0, 23);
  const whole = "word ".repeat(200);
  for (const [reasoning, text] of await read(10)) assert.deepEqual([reasoning.trim(), text.trim()], [cut, "Enough."]);
  for (const [reasoning, text] of await read(5000))
    assert.deepEqual([reasoning.trim(), text.trim()], [whole.trim(), "Four."]);
});

test("a wrong thinking_token_budget is refused by name", async () => {
  const body = { model: "script", messages: say("x"), thinking_token_budget: -1 };
  await assert.rejects(client.chat.completions.create(body), { status: 400, param: "thinking_token_budget" });
});

test("an input for response_format gets it as JSON, from a model without an input for a grammar", async () => {
  const format = { type: "json_schema" as const, json_schema: { name: "a", schema: { type: "object" } } };
  const answer = await client.chat.completions.create({
    model: "messages",
    messages: say("x"),
    response_format: format,
  });
  const given: unknown = JSON.parse(answer.choices[0]?.message.content ?? "");
  assert.deepEqual(JSON.parse(String(Reflect.get(Object(given), "format"))), format);
  await assert.rejects(client.chat.completions.create({ model: "echo", messages: say("x"), response_format: format }), {
    status: 400,
    param: "response_format",
  });
});

test("a call that is required is valid, from a model that knows nothing", { timeout: 600_000 }, async () => {
  for (let seed = 0; seed < 8; seed++) {
    const answer = await client.chat.completions.create({
      model: "tensorrt_llm",
      messages: [{ role: "user", content: "Hello" }],
      tools: TOOLS,
      tool_choice: seed % 2 === 0 ? "required" : { type: "function", function: { name: "get_weather" } },
      parallel_tool_calls: false,
      seed,
      max_completion_tokens: 400,
    });
    const [call] = answer.choices[0]?.message.tool_calls ?? [];
    assert.equal(call?.type, "function", JSON.stringify(answer.choices));
    assert.equal(answer.choices[0]?.finish_reason, seed % 2 === 0 ? "tool_calls" : "stop");
    const { town, days }: { town: string; days: number } = JSON.parse(call.function.arguments);
    assert.ok(["Oslo", "Rome"].includes(town) && days >= 1 && days <= 9, call.function.arguments);
  }
});

test("a required call of a model without guides is refused by name", async () => {
  const answer = client.chat.completions.create({
    model: "caller",
    messages: say("x"),
    tools: TOOLS,
    tool_choice: "required",
  });
  await assert.rejects(answer, (error: unknown) => Reflect.get(Object(error), "param") === "tool_choice");
});

const MOVES = {
  syntax: "lark" as const,
  definition: 'start: move ("\\n" move)~1..2\nmove: ("up"i | "down \\"far\\"") /[1-9]{1,2}/',
};
const MOVES_TEXT = /^(?:(?:up|down "far")[1-9]{1,2}\n?\b){2,3}$/i;
const ROBOT = { name: "robot", description: "Moves", format: { type: "grammar" as const, grammar: MOVES } };

test("the input of a custom tool follows its grammar, in chats and responses, streamed and not", {
  timeout: 120_000,
}, async () => {
  const chat = {
    model: "tensorrt_llm",
    messages: [{ role: "user" as const, content: "Go" }],
    tools: [{ type: "custom" as const, custom: ROBOT }],
    tool_choice: { type: "custom" as const, custom: { name: "robot" } },
    seed: 5,
    max_completion_tokens: 200,
  };
  const whole = await client.chat.completions.create(chat);
  const [call] = whole.choices[0]?.message.tool_calls ?? [];
  assert.equal(call?.type, "custom", JSON.stringify(whole.choices));
  assert.match(call.custom.input, MOVES_TEXT);
  const parts: { name: string; input: string } = { name: "", input: "" };
  for await (const { choices } of await client.chat.completions.create({ ...chat, stream: true })) {
    // The client's types know calls of functions alone.
    for (const part of choices[0]?.delta.tool_calls ?? []) {
      const { name = "", input = "" }: { name?: string; input?: string } = Reflect.get(part, "custom") ?? {};
      parts.name += name;
      parts.input += input;
    }
  }
  assert.deepEqual(parts, { name: "robot", input: call.custom.input });
  await expectCustomResponse();
});

async function expectCustomResponse(): Promise<void> {
  const stream = client.responses.stream({
    model: "tensorrt_llm",
    input: "Go",
    tools: [{ type: "custom", name: "robot", format: { type: "grammar", ...MOVES } }],
    tool_choice: { type: "custom", name: "robot" },
    max_output_tokens: 200,
  });
  const deltas: string[] = [];
  for await (const event of stream) {
    if (event.type === "response.custom_tool_call_input.delta") deltas.push(event.delta);
  }
  const [item] = (await stream.finalResponse()).output;
  assert.equal(item?.type, "custom_tool_call");
  assert.match(item.input, MOVES_TEXT);
  assert.equal(deltas.join(""), item.input);
  assert.ok(deltas.length > 1, "deltas arrive while the model writes");
}

test("a call of a custom tool goes back as the text that it was, and its text streams", async () => {
  const text = 'line "1"\nline 2 \u{1F600}';
  const tools = [{ type: "custom" as const, custom: { name: "note" } }];
  const call = { id: "call_a", type: "custom" as const, custom: { name: "note", input: text } };
  const script = `<tool_call>${JSON.stringify({ name: "note", arguments: { input: text } })}</tool_call>`;
  const messages = [
    { role: "assistant" as const, tool_calls: [call] },
    { role: "tool" as const, tool_call_id: "call_a", content: "kept" },
    ...say(script),
  ];
  const answer = await client.chat.completions.create({ model: "caller", messages, tools });
  const [again] = answer.choices[0]?.message.tool_calls ?? [];
  assert.equal(again?.type, "custom");
  assert.equal(again.custom.input, text);
});

test("a grammar that cannot hold is refused by name, in chats and responses", async () => {
  const grammar = { syntax: "regex" as const, definition: "a(?=b)" };
  const custom = { name: "x", format: { type: "grammar" as const, grammar } };
  const tools = [{ type: "custom" as const, custom }];
  const chat = client.chat.completions.create({ model: "caller", messages: say("x"), tools });
  await assert.rejects(chat, { status: 400, param: "tools[0].custom.format.definition", message: /lookarounds/ });
  const format = { type: "grammar" as const, syntax: "lark" as const, definition: "start: A" };
  const response = client.responses.create({
    model: "caller",
    input: "x",
    tools: [{ type: "custom", name: "x", format }],
  });
  await assert.rejects(response, { status: 400, param: "tools[0].format.definition", message: /'A' is not defined/ });
});

test("default_sampling of a model holds where the request says nothing", async () => {
  const told = async (more: object): Promise<string> => {
    const answer = await client.chat.completions.create({ model: "warm", messages: say("x"), ...more });
    return answer.choices[0]?.message.content ?? "";
  };
  assert.deepEqual([await told({}), await told({ temperature: 0.5 })], ["0.25", "0.5"]);
});
