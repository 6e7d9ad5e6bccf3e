/** OpenAI's Responses API by its own client: answers, streams, tools, structured output, errors. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import OpenAI, { APIError } from "openai";
import { makeParseableTextFormat } from "openai/lib/parser";
import type { ResponseInputItem, ResponseStreamEvent } from "openai/resources/responses/responses";
import { EXAMPLES, type ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { createScriptedModels } from "./scripted-models.ts";

const LLM = "tensorrt_llm";
const QUESTION = "What is the first computer?";
const ANSWER = " The first computer bug was an actual insect that got stuck in the Harvard Mark II computer in 1947.";
const WEATHER = {
  type: "function" as const,
  name: "get_weather",
  description: "Weather of a town",
  strict: true,
  parameters: {
    type: "object",
    properties: { town: { enum: ["Oslo", "Rome"] }, days: { type: "integer", minimum: 1, maximum: 9 } },
    required: ["town", "days"],
    additionalProperties: false,
  },
};
const CALL = '<tool_call>{"name": "get_weather", "arguments": {"town": "Oslo", "days": 2}}</tool_call>';
let scripted: ModelRepository;
let server: ServerProcess;
let client: OpenAI;

before(async () => {
  scripted = await createScriptedModels();
  server = await startServerProcess({ repositories: [EXAMPLES, scripted.path] });
  client = new OpenAI({ apiKey: "none", baseURL: `${server.baseUrl}/v1`, maxRetries: 0 });
});

after(async () => {
  await server?.stop();
  await scripted?.[Symbol.asyncDispose]();
});

async function collect<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const each of stream) all.push(each);
  return all;
}

async function errorOf(promise: Promise<unknown>): Promise<APIError> {
  const error = await promise.then(
    () => assert.fail("no error"),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof APIError, String(error));
  return error;
}

/** Types of events in their order, repeated ones once. */
function orderOf(events: readonly ResponseStreamEvent[]): string[] {
  return events.flatMap(({ type }, i) => (events[i - 1]?.type === type ? [] : [type.replace("response.", "")]));
}

test("responses.create() answers as a chat does, with counts", async () => {
  const response = await client.responses.create({ model: LLM, input: QUESTION, temperature: 0, store: false });
  assert.equal(response.output_text, ANSWER);
  assert.deepEqual([response.object, response.status, response.error], ["response", "completed", null]);
  assert.match(response.id, /^resp_[0-9a-f]{32}$/);
  const [message] = response.output;
  assert.equal(message?.type, "message");
  assert.deepEqual([message.role, message.status], ["assistant", "completed"]);
  const { input_tokens: input, output_tokens: output, total_tokens: total } = response.usage ?? {};
  assert.deepEqual([input, output, total], [10, 27, 37]);
});

test("max_output_tokens leaves the response incomplete", async () => {
  const body = { model: LLM, input: QUESTION, temperature: 0, max_output_tokens: 3, store: false };
  const response = await client.responses.create(body);
  assert.equal(response.status, "incomplete");
  assert.deepEqual(response.incomplete_details, { reason: "max_output_tokens" });
  assert.equal(response.output[0]?.type === "message" && response.output[0].status, "incomplete");
  const events = await collect(await client.responses.create({ ...body, stream: true }));
  assert.equal(events.at(-1)?.type, "response.incomplete");
});

test("the object repeats the request", async () => {
  const response = await client.responses.create({
    model: "echo",
    input: "say: yes",
    instructions: "Be brief.",
    metadata: { order: "7" },
    service_tier: "priority",
    store: false,
    text: { verbosity: "low" },
    tools: [WEATHER, { type: "web_search" }],
    user: "u",
  });
  assert.equal(response.instructions, "Be brief.");
  assert.deepEqual(response.metadata, { order: "7" });
  assert.deepEqual(
    [response.service_tier, response.tool_choice, response.truncation],
    ["priority", "auto", "disabled"],
  );
  assert.deepEqual(response.text, { format: { type: "text" }, verbosity: "low" });
  assert.deepEqual(response.tools, [WEATHER, { type: "web_search" }]);
});

test("a stream has OpenAI's events in their order, and its texts add up", async () => {
  const body = { model: LLM, input: QUESTION, temperature: 0, store: false } as const;
  const events = await collect(await client.responses.create({ ...body, stream: true }));
  assert.deepEqual(orderOf(events), [
    "created",
    "in_progress",
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
    "completed",
  ]);
  assert.deepEqual(
    events.map((event) => ("sequence_number" in event ? event.sequence_number : -1)),
    events.map((_, i) => i),
  );
  const deltas = events.flatMap((event) => (event.type === "response.output_text.delta" ? [event.delta] : []));
  assert.ok(deltas.length > 5);
  assert.equal(deltas.join(""), ANSWER);
  const final = await client.responses.stream(body).finalResponse();
  assert.equal(final.output_text, ANSWER);
});

test("reasoning is an item of its own: text, or the summary that was asked for", async () => {
  const body = { model: "caller", input: "say:<think>first this</think>then that", store: false } as const;
  const plain = await client.responses.create(body);
  const [reasoning, message] = plain.output;
  assert.equal(reasoning?.type, "reasoning");
  assert.deepEqual(reasoning.content, [{ type: "reasoning_text", text: "first this" }]);
  assert.deepEqual(reasoning.summary, []);
  assert.equal(message?.type, "message");
  assert.equal(plain.output_text.trim(), "then that");
  const raw = await collect(await client.responses.create({ ...body, stream: true }));
  const opening = ["created", "in_progress", "output_item.added"];
  const parts = ["content_part.added", "reasoning_text.delta", "reasoning_text.done", "content_part.done"];
  assert.deepEqual(orderOf(raw).slice(0, 8), [...opening, ...parts, "output_item.done"]);
  const asked = { ...body, reasoning: { effort: "high", summary: "auto" } } as const;
  const summed = await collect(await client.responses.create({ ...asked, stream: true }));
  const summary = ["part.added", "text.delta", "text.done", "part.done"].map((part) => `reasoning_summary_${part}`);
  assert.deepEqual(orderOf(summed).slice(0, 8), [...opening, ...summary, "output_item.done"]);
  const whole = await client.responses.stream(asked).finalResponse();
  const [item] = whole.output;
  assert.deepEqual(item?.type === "reasoning" && item.summary, [{ type: "summary_text", text: "first this" }]);
});

test("a call is an item with its arguments, streamed or not, and its result goes back", async () => {
  const body = { model: "caller", input: `say:Let me see. ${CALL}`, tools: [WEATHER], store: false };
  const first = await client.responses.create(body);
  const [message, call] = first.output;
  assert.equal(message?.type, "message");
  assert.equal(call?.type, "function_call");
  assert.deepEqual([call.name, call.status], ["get_weather", "completed"]);
  assert.deepEqual(JSON.parse(call.arguments), { town: "Oslo", days: 2 });
  const events = await collect(await client.responses.create({ ...body, stream: true }));
  const own = ["function_call_arguments.delta", "function_call_arguments.done", "output_item.done", "completed"];
  assert.deepEqual(orderOf(events).slice(-4), own);
  const done = events.find((event) => event.type === "response.function_call_arguments.done");
  assert.deepEqual(JSON.parse(done?.arguments ?? ""), { town: "Oslo", days: 2 });
  const result = { type: "function_call_output" as const, call_id: call.call_id, output: "say: It rains." };
  const second = await client.responses.create({
    ...body,
    input: [{ role: "user", content: "Weather?" }, message, call, result],
  });
  assert.match(second.output_text, /^It rains\./);
});

test("responses.parse() gives an object of the schema, from a model that knows nothing", async () => {
  const schema = {
    type: "object",
    properties: { town: { enum: ["Oslo", "Rome"] }, days: { type: "integer", minimum: 1, maximum: 9 } },
    required: ["town", "days"],
    additionalProperties: false,
  };
  const body = { model: LLM, input: "Hello", seed: 3, max_output_tokens: 200, store: false };
  const format = makeParseableTextFormat<{ town: string; days: number }>(
    { type: "json_schema", name: "trip", strict: true, schema },
    JSON.parse,
  );
  const { output_parsed: parsed } = await client.responses.parse({ ...body, text: { format } });
  assert.ok(parsed !== null && ["Oslo", "Rome"].includes(parsed.town));
  assert.ok(parsed.days >= 1 && parsed.days <= 9, String(parsed.days));
});

test("log-probabilities come with the text that was asked for", async () => {
  const response = await client.responses.create({
    model: LLM,
    input: QUESTION,
    temperature: 0,
    max_output_tokens: 4,
    include: ["message.output_text.logprobs"],
    top_logprobs: 2,
    store: false,
  });
  const [message] = response.output;
  assert.equal(message?.type, "message");
  const [part] = message.content;
  assert.equal(part?.type, "output_text");
  assert.deepEqual(
    part.logprobs?.map(({ token }) => token),
    [" The", " first", " computer", " bu"],
  );
  assert.deepEqual(
    part.logprobs?.map(({ top_logprobs: top }) => top.length),
    [2, 2, 2, 2],
  );
});

test("truncation: auto drops the oldest turns of a conversation that is too long", async () => {
  const turns = Array.from({ length: 100 }, (_, i) => [
    { role: "user" as const, content: `Question ${i}: ${"word ".repeat(40)}` },
    { role: "assistant" as const, content: `Answer ${i}.` },
  ]).flat();
  const input = [...turns, { role: "user" as const, content: QUESTION }];
  const body = { model: LLM, input, temperature: 0, max_output_tokens: 1024, store: false };
  const error = await errorOf(client.responses.create({ ...body, truncation: "disabled" }));
  assert.equal(error.code, "context_length_exceeded");
  const response = await client.responses.create({ ...body, truncation: "auto" });
  const tokens = response.usage?.input_tokens ?? 0; // half of the context is the answer's
  assert.ok(tokens > 800 && tokens <= 1024, `${tokens} tokens`);
  const short = await client.responses.create({ ...body, input: QUESTION, truncation: "auto" });
  assert.equal(short.usage?.input_tokens, 10);
});

test("inputTokens.count() gives the count of the answer's usage", async () => {
  const { input_tokens: tokens, object } = await client.responses.inputTokens.count({ model: LLM, input: QUESTION });
  assert.deepEqual([object, tokens], ["response.input_tokens", 10]);
});

test("responses.compact() leaves messages of users and a summary, which stands for the rest", async () => {
  const call = { type: "function_call" as const, call_id: "c1", name: "ls", arguments: "{}" };
  const input = [
    { role: "user" as const, content: "Find the file." },
    { role: "assistant" as const, content: "I look." },
    call,
    { type: "function_call_output" as const, call_id: "c1", output: "say: It is README.md." },
  ];
  const compacted = await client.responses.compact({ model: "echo", input });
  assert.equal(compacted.object, "response.compaction");
  assert.deepEqual(
    compacted.output.map(({ type }) => type),
    ["message", "compaction"],
  );
  const more = { role: "user" as const, content: "And now?" };
  const [first, summary] = compacted.output as ResponseInputItem[]; // clients send them back as they are
  assert.ok(first !== undefined && summary !== undefined);
  const next = await client.responses.create({ model: "messages", input: [first, summary, more] });
  const { messages }: { messages: readonly { role: string; content: string }[] } = JSON.parse(next.output_text);
  assert.deepEqual(
    messages.map(({ role, content }) => `${role}: ${content}`),
    ["user: Find the file.", "user: Summary of the conversation so far:\nIt is README.md.", "user: And now?"],
  );
  const kept = await client.responses.create({ model: "echo", input: "say: one" });
  const { output } = await client.responses.compact({ model: LLM, previous_response_id: kept.id });
  assert.deepEqual(Object.keys(Object(output[1])).sort(), ["encrypted_content", "id", "type"]);
});

test("responses.compact() shortens a conversation that is longer than the context", async () => {
  const input = Array.from({ length: 300 }, (_, i) => ({
    role: "user" as const,
    content: `Fact ${i}. ${"word ".repeat(9)}`,
  }));
  const { output, usage } = await client.responses.compact({ model: LLM, input });
  assert.equal(output.length, 301);
  assert.ok(usage.input_tokens > 500 && usage.input_tokens + usage.output_tokens <= 2048, JSON.stringify(usage));
});

test("a compaction_trigger is answered by the summary alone, streamed too", async () => {
  const input: ResponseInputItem[] = [
    { role: "user", content: "say: It is README.md." },
    { type: "compaction_trigger" },
  ];
  const events = await collect(await client.responses.create({ model: "echo", input, stream: true }));
  assert.deepEqual(orderOf(events), [
    "created",
    "in_progress",
    "output_item.added",
    "compaction.compacting",
    "output_item.done",
    "completed",
  ]);
  const [kept] = await collect(client.responses.inputItems.list(String(Reflect.get(events[0] ?? {}, "response")?.id)));
  assert.ok(kept !== undefined);
  const { output } = await client.responses.create({ model: "echo", input });
  assert.deepEqual(
    output.map(({ type }) => type),
    ["compaction"],
  );
});

test("context_management compacts a conversation that is longer than its threshold, and no other", async () => {
  const body = { model: LLM, input: QUESTION, temperature: 0, max_output_tokens: 4, store: false };
  const management = (threshold: number) => [{ type: "compaction", compact_threshold: threshold }];
  const short = await client.responses.create({ ...body, context_management: management(1000) });
  assert.equal(short.output_text, " The first computer bu");
  const long = await client.responses.create({ ...body, context_management: management(5) });
  assert.deepEqual(
    long.output.map(({ type }) => type),
    ["compaction", "message"],
  );
  assert.ok((long.usage?.output_tokens ?? 0) > 4, "tokens of the summary count");
});

const REFUSALS: readonly (readonly [what: string, body: object, code: string | null, param: string])[] = [
  ["no input", { model: "echo" }, "missing_required_parameter", "input"],
  ["an empty input", { model: "echo", input: [] }, "invalid_value", "input"],
  ["an unknown item", { model: "echo", input: [{ type: "poem" }] }, "invalid_value", "input[0].type"],
  ["an unknown role", { model: "echo", input: [{ role: "king", content: "x" }] }, "invalid_value", "input[0].role"],
  [
    "a call without a name",
    { model: "echo", input: [{ type: "function_call", call_id: "c" }] },
    "missing_required_parameter",
    "input[0].name",
  ],
  [
    "a tool without a name",
    { model: "echo", input: "x", tools: [{ type: "function" }] },
    "missing_required_parameter",
    "tools[0].name",
  ],
  [
    "a format without a name",
    { model: "echo", input: "x", text: { format: { type: "json_schema" } } },
    "missing_required_parameter",
    "text.format.name",
  ],
  [
    "a form that the model cannot promise",
    { model: "echo", input: "x", text: { format: { type: "json_object" } } },
    "unsupported_parameter",
    "text.format",
  ],
  ["a prompt that is too long", { model: LLM, input: "word ".repeat(3000) }, "context_length_exceeded", "input"],
  [
    "a conversation of OpenAI's store",
    { model: "echo", input: "x", conversation: "conv_1" },
    "unsupported_parameter",
    "conversation",
  ],
  ["a temperature above 2", { model: "echo", input: "x", temperature: 3 }, "decimal_above_max_value", "temperature"],
];

for (const [what, body, code, param] of REFUSALS) {
  test(`${what} is refused by name`, async () => {
    const error = await errorOf(client.responses.create(body as never));
    assert.deepEqual([error.status, error.type, error.code, error.param], [400, "invalid_request_error", code, param]);
  });
}

test("an unknown model is 404", async () => {
  const error = await errorOf(client.responses.create({ model: "none", input: "x" }));
  assert.deepEqual([error.status, error.code, error.param], [404, "model_not_found", null]);
});

test("a stream that fails ends with response.failed", async () => {
  const events = await collect(await client.responses.create({ model: "fails", input: "x", stream: true }));
  const last = events.at(-1);
  assert.equal(last?.type, "response.failed");
  assert.match(last.response.error?.message ?? "", /the script ends here/);
  assert.equal(last.response.status, "failed");
});
