/** Ollama's own client against the server, unchanged: chats, generations, embeddings, models and errors. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type ChatResponse, type GenerateResponse, Ollama, type Options } from "ollama";
import { createModelRepository, EXAMPLES, type ModelRepository } from "../support/model-repository.ts";
import { createScriptedChat } from "../support/scripted-chat.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const LLM = "tensorrt_llm";
const SCRIPT = "script";
const GREEDY: Partial<Options> = { temperature: 0, num_predict: 12 };
const QUESTION = [{ role: "user", content: "Hello" }];
const CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>';
const TOOLS = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "Weather of a city",
      parameters: { type: "object", properties: { city: { type: "string" }, days: { type: "integer" } } },
    },
  },
];

/** A vector of three numbers for each text: its length, 4, and 0. */
const VECTORS = {
  "vectors/config.pbtxt":
    'name: "vectors"\nbackend: "typescript"\nmax_batch_size: 8\ninput [ { name: "text" data_type: TYPE_STRING dims: [ 1 ] } ]\noutput [ { name: "embedding" data_type: TYPE_FP32 dims: [ 3 ] } ]\n',
  "vectors/1/model.ts": `
export function execute({ inputs }) {
  const texts = inputs.text.strings;
  return { embedding: { shape: [texts.length, 3], data: Float32Array.from(texts.flatMap((text) => [text.length, 4, 0])) } };
}
`,
};

let scripted: ModelRepository;
let vectors: ModelRepository;
let server: ServerProcess;
let client: Ollama;

before(async () => {
  scripted = await createScriptedChat();
  vectors = await createModelRepository({ files: VECTORS });
  server = await startServerProcess({ repositories: [EXAMPLES, scripted.path, vectors.path] });
  client = new Ollama({ host: server.baseUrl });
});

after(async () => {
  await server?.stop();
  await scripted?.[Symbol.asyncDispose]();
  await vectors?.[Symbol.asyncDispose]();
});

function say(text: string): { role: string; content: string }[] {
  return [{ role: "user", content: `say:${text}` }];
}

/** The last object of a stream, with the text, thinking and calls of all. */
async function collectChat(stream: AsyncIterable<ChatResponse>): Promise<ChatResponse> {
  const all: ChatResponse[] = [];
  for await (const each of stream) all.push(each);
  const last = all.at(-1);
  assert.ok(last?.done);
  assert.ok(all.slice(0, -1).every(({ done }) => !done));
  const message = {
    role: "assistant",
    content: all.map((each) => each.message.content).join(""),
    ...joinedThinking(all.map((each) => each.message.thinking)),
    ...joinedCalls(all.flatMap((each) => each.message.tool_calls ?? [])),
  };
  return { ...last, message };
}

function joinedThinking(parts: readonly (string | undefined)[]): { readonly thinking?: string } {
  const thinking = parts.join("");
  return thinking === "" ? {} : { thinking };
}

function joinedCalls(
  calls: NonNullable<ChatResponse["message"]["tool_calls"]>,
): Pick<ChatResponse["message"], "tool_calls"> {
  return calls.length === 0 ? {} : { tool_calls: calls };
}

async function collectText(stream: AsyncIterable<GenerateResponse>): Promise<string> {
  let text = "";
  for await (const { response } of stream) text += response ?? "";
  return text;
}

async function errorOf(promise: Promise<unknown>): Promise<{ readonly status_code: number; readonly message: string }> {
  const error = await promise.then(
    () => assert.fail("no error"),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof Error && "status_code" in error && typeof error.status_code === "number", String(error));
  return { status_code: error.status_code, message: error.message };
}

test("chat() answers with counts, durations and the reason of the end, streamed or not", async () => {
  const body = { model: LLM, messages: QUESTION, options: GREEDY };
  const whole = await client.chat(body);
  const streamed = await collectChat(await client.chat({ ...body, stream: true }));
  assert.equal(whole.message.content, " Answer:\n\nThe \"Milady's G");
  for (const answer of [whole, streamed]) {
    assert.equal(answer.message.content, whole.message.content);
    assert.deepEqual([answer.model, answer.done, answer.done_reason], [LLM, true, "length"]);
    assert.deepEqual([answer.prompt_eval_count, answer.eval_count], [6, 12]);
    assert.ok(answer.total_duration >= answer.eval_duration && answer.eval_duration > 0);
    assert.ok(!Number.isNaN(Date.parse(String(answer.created_at))));
  }
});

test("a name with the tag 'latest' is the name without it", async () => {
  const answer = await client.chat({ model: `${SCRIPT}:latest`, messages: say("yes") });
  assert.deepEqual([answer.model, answer.message.content], [`${SCRIPT}:latest`, "yes"]);
});

test("calls of tools come whole, with objects as arguments, streamed or not", async () => {
  const body = { model: SCRIPT, messages: say(`I look.\n${CALL}\n${CALL}`), tools: TOOLS };
  const whole = await client.chat(body);
  const streamed = await collectChat(await client.chat({ ...body, stream: true }));
  for (const { message, done_reason: reason } of [whole, streamed]) {
    assert.equal(message.content.trim(), "I look.");
    assert.deepEqual(
      message.tool_calls?.map(({ function: { name, arguments: given } }) => [name, given]),
      [
        ["get_weather", { city: "Paris", days: 2 }],
        ["get_weather", { city: "Paris", days: 2 }],
      ],
    );
    assert.equal(reason, "stop");
  }
});

test("tools, calls, results and images reach the template", async () => {
  const answer = await client.chat({
    model: SCRIPT,
    tools: TOOLS,
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Weather?", images: ["AAAA"] },
      {
        role: "assistant",
        content: "",
        tool_calls: [{ function: { name: "get_weather", arguments: { city: "Paris" } } }],
      },
      { role: "tool", content: "sunny", tool_name: "get_weather" },
      { role: "user", content: "show prompt" },
    ],
  });
  const [tool, ...lines] = answer.message.content.split("\n");
  assert.match(tool ?? "", /^tool get_weather \{.*"city"/);
  assert.deepEqual(lines, [
    "<|system|>Be brief.",
    "<|user|><image>Weather?",
    '<|assistant|>[{"name": "get_weather", "arguments": {"city": "Paris"}}]',
    "<|tool|>get_weathersunny",
    "<|user|>show prompt",
    "<|assistant|>thinking=False images=1",
  ]);
});

test("thinking comes apart from the text, and not at all with think: false", async () => {
  const body = { model: SCRIPT, messages: say("<think>Two and two.</think>Four.") };
  const streamed = await collectChat(await client.chat({ ...body, stream: true }));
  for (const { message } of [await client.chat(body), await client.chat({ ...body, think: true }), streamed]) {
    assert.deepEqual([message.thinking, message.content], ["Two and two.", "Four."]);
  }
  const { message } = await client.chat({ ...body, think: false });
  assert.deepEqual([message.thinking, message.content], [undefined, "Four."]);
  const prompt = await client.chat({
    model: SCRIPT,
    messages: [{ role: "user", content: "show prompt" }],
    think: true,
  });
  assert.match(prompt.message.content, /thinking=True/);
});

test("format makes the answer JSON of the schema", { timeout: 600_000 }, async () => {
  const schema = { type: "object", properties: { a: { enum: [1, 2] } }, required: ["a"], additionalProperties: false };
  const answer = await client.chat({ model: LLM, messages: QUESTION, format: schema, options: { num_predict: 100 } });
  const value: unknown = JSON.parse(answer.message.content);
  assert.ok([1, 2].includes(Reflect.get(Object(value), "a")));
});

test("options stop, and log-probabilities", async () => {
  const options = { ...GREEDY, stop: ["Milady"] };
  const answer = await client.chat({ model: LLM, messages: QUESTION, options, logprobs: true, top_logprobs: 2 });
  assert.deepEqual([answer.message.content, answer.done_reason], [' Answer:\n\nThe "', "stop"]);
  assert.equal(answer.logprobs?.[0]?.token, " A");
  assert.equal(answer.logprobs?.[0]?.top_logprobs?.length, 2);
});

test("generate() renders its prompt as a message, and raw leaves it as it is", async () => {
  const system = await client.generate({ model: SCRIPT, system: "Be brief.", prompt: "show prompt" });
  assert.equal(system.response, "<|system|>Be brief.\n<|user|>show prompt\n<|assistant|>thinking=False images=0");
  const body = { model: LLM, prompt: "a", raw: true, options: { temperature: 0, num_predict: 5 } };
  const raw = await client.generate(body);
  assert.deepEqual([raw.response, raw.done, raw.eval_count], [": There are two shapes", true, 5]);
  assert.equal(await collectText(await client.generate({ ...body, stream: true })), raw.response);
});

test("an empty prompt and an empty chat only ask for the model", async () => {
  const generation = await client.generate({ model: LLM, prompt: "" });
  assert.deepEqual([generation.response, generation.done_reason], ["", "load"]);
  const chat = await client.chat({ model: LLM, messages: [], keep_alive: 0 });
  assert.deepEqual([chat.message.content, chat.done_reason], ["", "unload"]);
});

test("embed() gives vectors of length 1, and embeddings() those of the model", async () => {
  const { embeddings } = await client.embed({ model: "vectors", input: ["abc", ""] });
  assert.deepEqual(
    embeddings.map((vector) => vector.map((value) => Number(value.toFixed(4)))),
    [
      [0.6, 0.8, 0],
      [0, 1, 0],
    ],
  );
  const short = await client.embed({ model: "vectors", input: "abc", dimensions: 1 });
  assert.deepEqual(short.embeddings, [[1]]);
  assert.deepEqual(await client.embeddings({ model: "vectors", prompt: "abc" }), { embedding: [3, 4, 0] });
});

test("list(), ps(), show() and version() describe the models", async () => {
  const { models } = await client.list();
  const names = models.map(({ name }) => name);
  for (const name of [LLM, "ensemble", SCRIPT, "vectors"]) assert.ok(names.includes(name), `no ${name}`);
  assert.equal(new Set(models.map(({ digest }) => digest)).size, models.length);
  const running = await client.ps();
  assert.deepEqual(running.models.map(({ name }) => name).toSorted(), names.toSorted());
  const shown = await client.show({ model: SCRIPT });
  assert.deepEqual(shown.capabilities, ["completion", "vision", "tools", "thinking"]);
  assert.deepEqual((await client.show({ model: "vectors" })).capabilities, ["embedding"]);
  const llm = await client.show({ model: LLM });
  assert.equal(Reflect.get(llm.model_info, `${llm.details.family}.context_length`), 2048);
  assert.match((await client.version()).version, /^\d+\.\d+\.\d+$/);
});

test("errors are a status and a text", async () => {
  const unknown = await errorOf(client.chat({ model: "llama0", messages: QUESTION }));
  assert.deepEqual(unknown, { status_code: 404, message: "model 'llama0' not found" });
  const shown = await errorOf(client.show({ model: "llama0" }));
  assert.equal(shown.status_code, 404);
  const role = await errorOf(client.chat({ model: LLM, messages: [{ role: "robot", content: "x" }] }));
  assert.equal(role.status_code, 400);
  const template = await errorOf(client.generate({ model: LLM, prompt: "a", template: "{{ .Prompt }}" }));
  assert.match(template.message, /'template'/);
  const long = await errorOf(client.chat({ model: LLM, messages: [{ role: "user", content: "word ".repeat(3000) }] }));
  assert.match(long.message, /maximum context length is 2048/);
  const pull = await errorOf(client.pull({ model: "llama0" }));
  assert.equal(pull.status_code, 404);
});

test("a failure in the middle of a stream is its last line", async () => {
  const failing = await createModelRepository({
    files: {
      "fails/config.pbtxt":
        'name: "fails"\nbackend: "typescript"\nmax_batch_size: 0\nmodel_transaction_policy { decoupled: true }\ninput [ { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] } ]\noutput [ { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] } ]\n',
      "fails/1/model.ts":
        'export async function* execute(request, context) {\n  yield { text_output: ["one "] };\n  throw context.error("invalid_argument", "the script ends here");\n}\n',
    },
  });
  const other = await startServerProcess({ repositories: [failing.path] });
  const stream = await new Ollama({ host: other.baseUrl }).chat({ model: "fails", messages: QUESTION, stream: true });
  await assert.rejects(collectChat(stream), /the script ends here/);
  await other.stop();
  await failing[Symbol.asyncDispose]();
});
