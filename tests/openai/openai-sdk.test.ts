/** OpenAI's own client against the server, unchanged: chats, completions, models, streams and errors. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import OpenAI, { APIError } from "openai";
import { EXAMPLES, type ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { createScriptedModels } from "./scripted-models.ts";

const LLM = "tensorrt_llm";
const QUESTION = [{ role: "user" as const, content: "What is the first computer?" }];
const ANSWER = " The first computer bug was an actual insect that got stuck in the Harvard Mark II computer in 1947.";
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

test("models.list() names text models with capabilities and context length, and no others", async () => {
  const models = await collect(client.models.list());
  const ids = models.map(({ id }) => id);
  for (const id of [LLM, "ensemble", "tensorrt_llm_bls", "echo"]) assert.ok(ids.includes(id), `no ${id}`);
  assert.ok(!ids.includes("numbers"));
  const one = await client.models.retrieve(LLM);
  assert.equal(one.object, "model");
  assert.deepEqual(Reflect.get(one, "max_model_len"), 2048);
  const capabilities: unknown = Reflect.get(one, "capabilities");
  assert.deepEqual(capabilities, ["chat", "completions", "tools", "logprobs", "structured_outputs", "tokenize"]);
});

for (const model of [LLM, "ensemble", "tensorrt_llm_bls"]) {
  test(`chat.completions.create() answers with '${model}' as generate does`, async () => {
    const answer = await client.chat.completions.create({ model, messages: QUESTION, temperature: 0, max_tokens: 50 });
    const [choice] = answer.choices;
    assert.equal(choice?.message.content, ANSWER);
    assert.equal(choice?.finish_reason, "stop");
    assert.equal(answer.usage?.prompt_tokens, 10);
    assert.equal(answer.usage?.completion_tokens, 27);
  });

  test(`a stream of '${model}' adds up to the whole answer`, async () => {
    const body = { model, messages: QUESTION, temperature: 0, max_tokens: 12 } as const;
    const whole = await client.chat.completions.create(body);
    const stream = await client.chat.completions.create({
      ...body,
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = await collect(stream);
    const text = chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("");
    assert.equal(text, whole.choices[0]?.message.content);
    assert.deepEqual(chunks.at(-1)?.usage?.completion_tokens, 12);
    assert.deepEqual(chunks.at(-1)?.choices, []);
    assert.equal(chunks.at(-2)?.choices[0]?.finish_reason, "length");
    assert.equal(chunks[0]?.choices[0]?.delta.role, "assistant");
  });
}

test("usage comes with each chunk on request, and counts up", async () => {
  // vLLM's `continuous_usage_stats` is not in the client's types.
  const options = { include_usage: true, continuous_usage_stats: true };
  const body = { model: "tensorrt_llm", messages: QUESTION, temperature: 0, max_tokens: 6 } as const;
  const chunks = await collect(
    await client.chat.completions.create({ ...body, stream: true, stream_options: options }),
  );
  const counts = chunks.map(({ usage }) => usage?.completion_tokens ?? -1);
  assert.deepEqual([counts.at(-1), Math.min(...counts) >= 0], [6, true]);
  assert.deepEqual(
    counts,
    [...counts].sort((a, b) => a - b),
  );
});

test("a stop text ends the answer and is not part of it, streamed or not", async () => {
  const body = { model: LLM, messages: QUESTION, temperature: 0, max_tokens: 50, stop: ["insect"] } as const;
  const whole = await client.chat.completions.create({ ...body, stop: [...body.stop] });
  assert.equal(whole.choices[0]?.message.content, " The first computer bug was an actual ");
  assert.equal(whole.choices[0]?.finish_reason, "stop");
  const chunks = await collect(await client.chat.completions.create({ ...body, stop: [...body.stop], stream: true }));
  assert.equal(
    chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join(""),
    " The first computer bug was an actual ",
  );
});

test("log-probabilities come with bytes and alternatives, streamed or not", async () => {
  const body = {
    model: LLM,
    messages: QUESTION,
    temperature: 0,
    max_tokens: 4,
    logprobs: true,
    top_logprobs: 3,
  } as const;
  const whole = await client.chat.completions.create(body);
  const content = whole.choices[0]?.logprobs?.content ?? [];
  assert.deepEqual(
    content.map(({ token }) => token),
    [" The", " first", " computer", " bu"],
  );
  for (const { token, bytes, logprob, top_logprobs: top } of content) {
    assert.equal(Buffer.from(bytes ?? []).toString(), token);
    assert.equal(top.length, 3);
    assert.equal(top[0]?.token, token);
    assert.equal(top[0]?.logprob, logprob);
  }
  const chunks = await collect(await client.chat.completions.create({ ...body, stream: true }));
  const streamed = chunks.flatMap(({ choices }) => choices[0]?.logprobs?.content ?? []);
  assert.deepEqual(
    streamed.map(({ token }) => token),
    content.map(({ token }) => token),
  );
});

test("n gives so many choices; equal seeds give equal choices, and one request's choices differ", async () => {
  const body = { model: LLM, messages: QUESTION, n: 3, seed: 7, max_tokens: 8, temperature: 1.5 } as const;
  const first = await client.chat.completions.create(body);
  const second = await client.chat.completions.create(body);
  const texts = first.choices.map(({ message }) => message.content);
  assert.deepEqual(
    second.choices.map(({ message }) => message.content),
    texts,
  );
  assert.equal(new Set(texts).size, 3);
  assert.equal(first.usage?.prompt_tokens, 10);
  const chunks = await collect(await client.chat.completions.create({ ...body, stream: true }));
  const streamed = [0, 1, 2].map((index) =>
    chunks
      .flatMap(({ choices }) => choices)
      .filter((choice) => choice.index === index)
      .map(({ delta }) => delta.content ?? "")
      .join(""),
  );
  assert.deepEqual(streamed, texts);
});

test("logit_bias forces and forbids tokens", async () => {
  const tokens: { tokens: number[] } = await post("/tokenize", {
    model: LLM,
    prompt: " computer",
    add_special_tokens: false,
  });
  const [id] = tokens.tokens;
  const body = { model: LLM, messages: QUESTION, temperature: 0, max_tokens: 3 } as const;
  const forced = await client.chat.completions.create({ ...body, logit_bias: { [String(id)]: 100 } });
  assert.equal(forced.choices[0]?.message.content, " computer computer computer");
});

test("response_format makes the answer JSON", { timeout: 600_000 }, async () => {
  const schema = { type: "object", properties: { a: { enum: [1, 2] } }, required: ["a"], additionalProperties: false };
  const answer = await client.chat.completions.create({
    model: LLM,
    messages: QUESTION,
    max_tokens: 100,
    seed: 1,
    response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: true } },
  });
  const value: unknown = JSON.parse(answer.choices[0]?.message.content ?? "");
  assert.ok([1, 2].includes(Reflect.get(Object(value), "a")));
});

test("a second request finds its prompt in the cache, and none under another prompt_cache_key", async () => {
  const content = "one two three four five six seven eight nine ten ".repeat(8);
  const ask = async (key: string): Promise<number> => {
    const answer = await client.chat.completions.create({
      model: LLM,
      messages: [{ role: "user", content }],
      max_tokens: 2,
      prompt_cache_key: key,
    });
    return answer.usage?.prompt_tokens_details?.cached_tokens ?? -1;
  };
  assert.equal(await ask("a"), 0);
  const cached = await ask("a");
  assert.ok(cached >= 64 && cached % 16 === 0, `${cached} cached`);
  assert.equal(await ask("b"), 0);
});

test("completions.create() takes texts and token ids, several at once", async () => {
  const { tokens } = await post<{ tokens: number[] }>("/tokenize", { model: LLM, prompt: "a" });
  const body = { model: LLM, temperature: 0, max_tokens: 5 } as const;
  const one = await client.completions.create({ ...body, prompt: "a" });
  assert.equal(one.choices[0]?.text, ": There are two shapes");
  const ids = await client.completions.create({ ...body, prompt: tokens });
  assert.equal(ids.choices[0]?.text, ": There are two shapes");
  const many = await client.completions.create({ ...body, prompt: ["a", "b c"] });
  assert.deepEqual(
    many.choices.map(({ index, text }) => [index, text]),
    [
      [0, ": There are two shapes"],
      [1, "odes of skin,"],
    ],
  );
});

test("echo gives the prompt back, with its log-probabilities", async () => {
  const answer = await client.completions.create({
    model: LLM,
    prompt: "a",
    temperature: 0,
    max_tokens: 2,
    echo: true,
    logprobs: 1,
  });
  const [choice] = answer.choices;
  assert.equal(choice?.text, "a: There");
  assert.deepEqual(choice?.logprobs?.tokens, ["<s>", "a", ":", " There"]);
  assert.deepEqual(
    choice?.logprobs?.token_logprobs?.map((value) => value === null),
    [true, false, false, false],
  );
});

test("a stream of completions adds up to the whole answer", async () => {
  const body = { model: LLM, prompt: "a", temperature: 0, max_tokens: 9 } as const;
  const whole = await client.completions.create(body);
  const chunks = await collect(await client.completions.create({ ...body, stream: true }));
  assert.equal(chunks.map(({ choices }) => choices[0]?.text ?? "").join(""), whole.choices[0]?.text);
  assert.equal(chunks.at(-1)?.choices[0]?.finish_reason, "length");
});

test("a model of the user's own answers without a tokenizer and without usage", async () => {
  const answer = await client.chat.completions.create({
    model: "echo",
    messages: [
      { role: "system", content: "be brief" },
      { role: "user", content: [{ type: "text", text: "say: one two" }] },
    ],
    temperature: 0.3,
  });
  assert.equal(answer.choices[0]?.message.content?.trim(), "one two");
  assert.equal(answer.usage, undefined);
});

test("a model with an input for messages gets them as they came", async () => {
  const answer = await client.chat.completions.create({ model: "messages", messages: QUESTION, user: "u1" });
  assert.deepEqual(JSON.parse(answer.choices[0]?.message.content ?? ""), { messages: QUESTION, user: "u1" });
});

test("a failure in the middle of a stream reaches the client", async () => {
  const stream = await client.chat.completions.create({ model: "fails", messages: QUESTION, stream: true });
  const error = await errorOf(collect(stream));
  assert.match(error.message, /the script ends here/);
});

test("a client that leaves ends the generation", { timeout: 600_000 }, async () => {
  const stream = await client.chat.completions.create({ model: "slow", messages: QUESTION, stream: true });
  let count = 0;
  for await (const chunk of stream) if (chunk.choices[0]?.delta.content && ++count === 3) break;
  while (!/slow ended after \d+ words/.test(server.log())) await sleep(50);
  const words = Number(/slow ended after (\d+) words/.exec(server.log())?.[1]);
  assert.ok(words < 500, `${words} words`);
});

test("chats count in the statistics of their model, and a choice is a request", async () => {
  const countOf = async (): Promise<number> => {
    const response = await fetch(`${server.baseUrl}/v2/models/echo/stats`);
    const stats: { model_stats: { inference_stats: { success: { count: number } } }[] } = JSON.parse(
      await response.text(),
    );
    return stats.model_stats[0]?.inference_stats.success.count ?? 0;
  };
  const before = await countOf();
  await client.chat.completions.create({ model: "echo", messages: QUESTION, n: 3 });
  assert.equal((await countOf()) - before, 3);
});

test("withResponse() shows the request id", async () => {
  const { request_id: id } = await client.models.list().withResponse();
  assert.match(id ?? "", /^req_[0-9a-f]{32}$/);
});

type ChatBody = Parameters<typeof client.chat.completions.create>[0];

/** Cases of OpenAI's reference, "Error codes": status, type, code and param. */
const ERRORS: readonly (readonly [
  what: string,
  body: Record<string, unknown>,
  status: number,
  code: string | null,
  param: string | null,
])[] = [
  ["an unknown model", { model: "gpt-none" }, 404, "model_not_found", null],
  ["a model without text", { model: "numbers" }, 400, null, null],
  ["no model", { model: undefined }, 400, "missing_required_parameter", "model"],
  ["no messages", { messages: undefined }, 400, "missing_required_parameter", "messages"],
  ["an empty list of messages", { messages: [] }, 400, "empty_array", "messages"],
  ["a wrong role", { messages: [{ role: "robot", content: "x" }] }, 400, "invalid_value", "messages[0].role"],
  ["a message without a role", { messages: [{ content: "x" }] }, 400, "missing_required_parameter", "messages[0].role"],
  ["a temperature that is too high", { temperature: 3 }, 400, "decimal_above_max_value", "temperature"],
  ["a temperature of a wrong type", { temperature: "hot" }, 400, "invalid_type", "temperature"],
  ["a negative max_tokens", { max_tokens: -1 }, 400, "integer_below_min_value", "max_tokens"],
  ["a top_logprobs without logprobs", { top_logprobs: 2 }, 400, "invalid_value", "top_logprobs"],
  ["an audio answer", { modalities: ["text", "audio"] }, 400, "unsupported_parameter", "modalities"],
  [
    "a part of an unknown type",
    { messages: [{ role: "user", content: [{ type: "smell" }] }] },
    400,
    "unsupported_value",
    "messages[0].content[0].type",
  ],
  ["a tool choice without tools", { tool_choice: "required" }, 400, "invalid_value", "tool_choice"],
  [
    "a response format of an unknown type",
    { response_format: { type: "xml" } },
    400,
    "unsupported_value",
    "response_format.type",
  ],
  ["log-probabilities of a pipeline", { model: "ensemble", logprobs: true }, 400, "unsupported_parameter", "logprobs"],
  [
    "an image for a model without eyes",
    {
      messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }] }],
    },
    400,
    "unsupported_parameter",
    "messages",
  ],
  [
    "an image URL that is none",
    { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "file:///etc/passwd" } }] }] },
    400,
    "invalid_image_url",
    "messages[0].content[0].image_url.url",
  ],
];

for (const [what, changes, status, code, param] of ERRORS) {
  test(`${what} is refused as OpenAI does: ${status}, ${code}, ${param}`, async () => {
    const body = { model: LLM, messages: QUESTION, max_tokens: 4, ...changes };
    const error = await errorOf(Promise.resolve(client.chat.completions.create(body as ChatBody)));
    assert.deepEqual(
      [error.status, error.type, error.code, error.param],
      [status, "invalid_request_error", code, param],
    );
  });
}

test("unknown fields and null fields are ignored", async () => {
  const body = { model: LLM, messages: QUESTION, max_tokens: 2, stop: null, tools: null, color: "red", store: true };
  const answer = await client.chat.completions.create(body as unknown as ChatBody & { stream?: false });
  assert.equal(answer.choices.length, 1);
});

test("malformed JSON, a wrong method and an unknown path have OpenAI's error object", async () => {
  const malformed = await fetch(`${server.baseUrl}/v1/chat/completions`, { method: "POST", body: "{" });
  assert.equal(malformed.status, 400);
  assert.match(await malformed.text(), /"message":"We could not parse the JSON body/);
  const method = await fetch(`${server.baseUrl}/v1/chat/completions`);
  assert.equal(method.status, 405);
  assert.match(await method.text(), /"code":"method_not_supported"/);
  const path = await fetch(`${server.baseUrl}/v1/nothing`);
  assert.equal(path.status, 404);
  assert.match(await path.text(), /"message":"Invalid URL \(GET \/v1\/nothing\)"/);
});

test("/tokenize and /detokenize undo each other, and messages are rendered", async () => {
  const { tokens, count } = await post<{ tokens: number[]; count: number }>("/tokenize", {
    model: LLM,
    prompt: "hello there",
  });
  assert.equal(tokens.length, count);
  const { prompt } = await post<{ prompt: string }>("/detokenize", { model: LLM, tokens });
  assert.equal(prompt, "<s>hello there");
  const chat = await post<{ tokens: number[] }>("/tokenize", { model: LLM, messages: QUESTION });
  assert.equal(chat.tokens.length, 10);
});

async function post<T>(path: string, body: unknown): Promise<T> {
  const response = await fetch(`${server.baseUrl}${path}`, { method: "POST", body: JSON.stringify(body) });
  assert.equal(response.status, 200, path);
  return response.json() as Promise<T>;
}
