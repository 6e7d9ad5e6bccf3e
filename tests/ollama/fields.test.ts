/**
 * Ollama's API field by field, over plain HTTP: each field of each request, each member of each answer. The tables hold all
 * that the routes' schemas name, and `docs/ollama.md` names all of them.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { OLLAMA_OPTIONS } from "@nereid/server/protocol/ollama/options";
import { createModelRepository, EXAMPLES, type ModelRepository } from "../support/model-repository.ts";
import { createScriptedChat } from "../support/scripted-chat.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { TOLD_MODELS } from "./told-models.ts";

type Body = Readonly<Record<string, unknown>>;

const LLM = "tensorrt_llm";
const PAGE = new URL("../../docs/ollama.md", import.meta.url);
const HELLO = [{ role: "user", content: "Hello" }];
const SCHEMA = { type: "object", properties: { a: { enum: [1] } }, required: ["a"], additionalProperties: false };
let scripted: ModelRepository;
let told: ModelRepository;
let server: ServerProcess;

before(async () => {
  scripted = await createScriptedChat();
  told = await createModelRepository({ files: TOLD_MODELS });
  const paths = [EXAMPLES, scripted.path, told.path];
  const wanted = [LLM, "script", "told", "vectors", "tokens_of"].map((name) => `--load-model=${name}`);
  server = await startServerProcess({ repositories: paths, flags: ["--model-control-mode=explicit", ...wanted] });
});

after(async () => {
  await server?.stop();
  await scripted?.[Symbol.asyncDispose]();
  await told?.[Symbol.asyncDispose]();
});

interface Answer {
  readonly status: number;
  readonly text: string;
  /** The lines of a stream, or the one object. */
  readonly lines: readonly Body[];
}

async function post(path: string, body: Body): Promise<Answer> {
  const response = await fetch(server.baseUrl + path, { method: "POST", body: JSON.stringify(body) });
  const text = await response.text();
  const lines = text.trim().split("\n");
  return { status: response.status, text, lines: lines.map((line): Body => JSON.parse(line)) };
}

async function ask(path: string, body: Body): Promise<Body> {
  const { status, text, lines } = await post(path, { stream: false, ...body });
  assert.equal(status, 200, text);
  return lines[0] ?? {};
}

async function refusal(path: string, body: Body): Promise<string> {
  const { status, text, lines } = await post(path, { stream: false, ...body });
  assert.equal(status, 400, text);
  assert.deepEqual(Object.keys(lines[0] ?? {}), ["error"]);
  return String(lines[0]?.error);
}

const say = (text: string): Body[] => [{ role: "user", content: `say:${text}` }];
const chatText = (answer: Body): string => String(Reflect.get(Object(answer.message), "content"));

/** The inputs of a model that tells what it got. */
async function inputsOf(options: Body): Promise<unknown> {
  return JSON.parse(chatText(await ask("/api/chat", { model: "told", messages: HELLO, options })));
}

/** By option: a value and the inputs of the model that it changes. */
const HONOURED: Readonly<Record<string, readonly (readonly [value: unknown, inputs: Body])[]>> = {
  num_predict: [
    [5, { max_tokens: 5 }],
    [-1, {}],
    [-2, {}],
    [0, {}],
  ],
  temperature: [
    [0.5, { temperature: 0.5 }],
    [0, { top_k: 1, temperature: undefined, top_p: undefined }],
  ],
  top_p: [[0.25, { top_p: 0.25 }]],
  top_k: [[7, { top_k: 7 }]],
  min_p: [[0.125, { min_p: 0.125 }]],
  seed: [
    [3, { seed: 3 }],
    [-1, {}],
  ],
  repeat_penalty: [[1.5, { repetition_penalty: 1.5 }]],
  presence_penalty: [[0.5, { presence_penalty: 0.5 }]],
  frequency_penalty: [[0.75, { frequency_penalty: 0.75 }]],
  stop: [],
  repeat_last_n: [],
};
const DEFAULTS = { temperature: 1, top_p: 1, top_k: 0 };

test("each option is honoured by the model's inputs, or ignored", async () => {
  const known = Object.keys(OLLAMA_OPTIONS).filter((name) => OLLAMA_OPTIONS[name]?.isIgnored !== true);
  assert.deepEqual(Object.keys(HONOURED).toSorted(), known.toSorted());
  for (const [name, cases] of Object.entries(HONOURED)) {
    for (const [value, changed] of cases) {
      const expected = JSON.parse(JSON.stringify({ ...DEFAULTS, ...changed }));
      assert.deepEqual(await inputsOf({ [name]: value }), expected, `${name}: ${value}`);
    }
  }
  const values = { number: 0.5, integer: 3, boolean: true, texts: ["x"] };
  for (const [name, { kind, isIgnored }] of Object.entries(OLLAMA_OPTIONS)) {
    const inputs = await inputsOf(isIgnored === true ? { [name]: values[kind] } : {});
    assert.deepEqual(inputs, DEFAULTS, name);
  }
  assert.deepEqual(await inputsOf({ no_such_option: {} }), DEFAULTS);
});

test("repeat_last_n of 0 switches penalties off, and stop ends an answer", async () => {
  const penalties = { repeat_penalty: 1.5, presence_penalty: 0.5, frequency_penalty: 0.5 };
  assert.deepEqual(await inputsOf({ ...penalties, repeat_last_n: 0 }), DEFAULTS);
  const windowed = { ...DEFAULTS, repetition_penalty: 1.5, presence_penalty: 0.5, frequency_penalty: 0.5 };
  assert.deepEqual(await inputsOf({ ...penalties, repeat_last_n: 64 }), windowed);
  for (const stop of [["two"], "two"]) {
    const answer = await ask("/api/chat", { model: "script", messages: say("one two three"), options: { stop } });
    assert.deepEqual([chatText(answer), answer.done_reason], ["one ", "stop"]);
  }
});

test("an option of a wrong type is refused by name, ignored ones too", async () => {
  const wrong = { number: "1", integer: "1", boolean: 1, texts: [1] };
  for (const [name, { kind }] of Object.entries(OLLAMA_OPTIONS)) {
    const text = await refusal("/api/chat", { model: "script", messages: say("x"), options: { [name]: wrong[kind] } });
    assert.match(text, new RegExp(`^Invalid type for 'options\\.${name}': expected an? `));
  }
});

/** Wrong values of fields, and the refusal. */
const REFUSED: readonly (readonly [path: string, more: Body, refusal: RegExp])[] = [
  ["/api/chat", { keep_alive: "soon" }, /'keep_alive': expected a number of seconds, or a duration such as '5m'/],
  ["/api/chat", { keep_alive: "1".repeat(100_000) }, /'keep_alive'/],
  ["/api/chat", { keep_alive: {} }, /'keep_alive'/],
  ["/api/chat", { format: "xml" }, /'format'|Supported values are: 'json'/],
  ["/api/chat", { think: "much" }, /'low', 'medium', and 'high'/],
  ["/api/chat", { truncate: "no" }, /'truncate'/],
  ["/api/chat", { top_logprobs: 21 }, /'top_logprobs'/],
  ["/api/chat", { tools: [1] }, /'tools\[0\]'/],
  ["/api/chat", { messages: [{ role: "user", content: 1 }] }, /'messages\[0\]\.content'/],
  ["/api/generate", { prompt: "a", template: "{{ .Prompt }}" }, /'template'.*chat_template/],
  ["/api/generate", { prompt: "a", suffix: "b" }, /'suffix'/],
  ["/api/generate", { prompt: "a", raw: true, system: "s" }, /raw mode does not support template, system, or context/],
  ["/api/generate", { prompt: "a", raw: true, context: [1] }, /raw mode does not support/],
  ["/api/generate", { prompt: "a", context: [1] }, /'context'.*tokenizer_dir/],
  ["/api/generate", { model: LLM, prompt: "a", context: [9_999_999] }, /'context\[0\]': expected a token id below/],
  ["/api/generate", { prompt: "a", images: [1] }, /images/],
  ["/api/embed", { model: "vectors", input: "abc", dimensions: 4 }, /expected a value <= 3/],
  ["/api/embed", { model: "script", input: "abc" }, /.+/],
];

test("wrong values are refused by name", async () => {
  for (const [path, more, expected] of REFUSED) {
    const text = await refusal(path, {
      model: "script",
      ...(path === "/api/chat" ? { messages: HELLO } : {}),
      ...more,
    });
    assert.match(text, expected, JSON.stringify(more).slice(0, 200));
  }
});

test("keep_alive takes seconds and Go's durations, and unloads nothing", async () => {
  for (const value of [-1, 0, 3600, "0", "5m", "-1s", "1h30m", "1.5h", "300ms", null]) {
    const body = { model: "script", messages: say("here"), keep_alive: value };
    assert.equal(chatText(await ask("/api/chat", body)), "here");
  }
  const { done_reason: reason } = await ask("/api/generate", { model: "script", prompt: "", keep_alive: "0s" });
  assert.equal(reason, "unload");
  assert.equal(chatText(await ask("/api/chat", { model: "script", messages: say("here") })), "here");
});

test("format makes chats and generations JSON", { timeout: 600_000 }, async () => {
  const options = { num_predict: 200, seed: 1 };
  const chat = await ask("/api/chat", { model: LLM, messages: HELLO, format: SCHEMA, options });
  const generation = await ask("/api/generate", { model: LLM, prompt: "Hello", format: SCHEMA, options });
  for (const text of [chatText(chat), String(generation.response)]) assert.deepEqual(JSON.parse(text), { a: 1 });
  const plain = await ask("/api/chat", { model: "script", messages: say("x"), format: "" });
  assert.equal(chatText(plain), "x");
});

test("truncate drops the oldest turns of a chat that is too long, and false refuses it", async () => {
  const turns = Array.from({ length: 40 }, (_, i) => [
    { role: "user", content: `turn ${i}: ${"word ".repeat(60)}` },
    { role: "assistant", content: "yes" },
  ]);
  const messages = [{ role: "system", content: "Be brief." }, ...turns.flat(), ...HELLO];
  const body = { model: LLM, messages, options: { num_predict: 4, temperature: 0 } };
  const cut = await ask("/api/chat", body);
  assert.ok(Number(cut.prompt_eval_count) > 1000 && Number(cut.prompt_eval_count) <= 2044, `${cut.prompt_eval_count}`);
  assert.match(await refusal("/api/chat", { ...body, truncate: false }), /maximum context length is 2048/);
});

test("truncate cuts a text that is too long for its vector, and false refuses it", async () => {
  const input = ["word ".repeat(100), "short"];
  const { embeddings, ...rest } = await ask("/api/embed", { model: "tokens_of", input, keep_alive: 0, options: {} });
  assert.deepEqual(Object.keys(rest).toSorted(), ["load_duration", "model", "prompt_eval_count", "total_duration"]);
  assert.ok(Number(rest.prompt_eval_count) <= 20, `${rest.prompt_eval_count}`);
  assert.ok(Array.isArray(embeddings) && embeddings.length === 2);
  const text = await refusal("/api/embed", { model: "tokens_of", input, truncate: false });
  assert.match(text, /the input length exceeds the context length: 'input\[0\]' has \d+ tokens/);
});

test("context goes on with a conversation, and raw has none", async () => {
  const body = { model: LLM, options: { num_predict: 8, temperature: 0 } };
  const first = await ask("/api/generate", { ...body, prompt: "Hello" });
  assert.ok(Array.isArray(first.context) && first.context.length >= 9);
  const second = await ask("/api/generate", { ...body, prompt: "And then?", context: first.context });
  assert.ok(Number(second.prompt_eval_count) > first.context.length);
  assert.deepEqual(Array.isArray(second.context) && second.context.slice(0, 4), first.context.slice(0, 4));
  const { lines } = await post("/api/generate", { ...body, prompt: "Hello" });
  assert.deepEqual(lines.at(-1)?.context, first.context);
  assert.ok(lines.slice(0, -1).every((line) => !("context" in line)));
  const raw = await ask("/api/generate", { ...body, prompt: "Hello", raw: true });
  assert.ok(!("context" in raw));
});

const HEAD = ["created_at", "done", "model"];
const END = [
  "done_reason",
  "eval_count",
  "eval_duration",
  "load_duration",
  "prompt_eval_count",
  "prompt_eval_duration",
  "total_duration",
];
const DETAILS = ["families", "family", "format", "parameter_size", "parent_model", "quantization_level"];
const ENTRY = ["details", "digest", "model", "modified_at", "name", "size"];

test("answers have Ollama's members, and times are whole nanoseconds", async () => {
  const options = { num_predict: 3, temperature: 0 };
  for (const [path, more, member] of [
    ["/api/chat", { messages: HELLO }, "message"],
    ["/api/generate", { prompt: "Hello", raw: true }, "response"],
  ] as const) {
    const whole = await ask(path, { model: LLM, ...more, options, logprobs: true, top_logprobs: 2 });
    assert.deepEqual(Object.keys(whole).toSorted(), [...HEAD, ...END, member, "logprobs"].toSorted());
    for (const name of END.filter((each) => each.endsWith("_duration"))) assert.ok(Number.isInteger(whole[name]), name);
    const { lines } = await post(path, { model: LLM, ...more, options });
    assert.deepEqual(Object.keys(lines[0] ?? {}).toSorted(), [...HEAD, member].toSorted());
    assert.deepEqual(Object.keys(lines.at(-1) ?? {}).toSorted(), [...HEAD, ...END, member].toSorted());
    const [score] = Array.isArray(whole.logprobs) ? whole.logprobs : [];
    assert.deepEqual(Object.keys(Object(score)).toSorted(), ["bytes", "logprob", "token", "top_logprobs"]);
  }
});

test("/api/tags, /api/ps, /api/show and /api/version have Ollama's members", async () => {
  const get = async (path: string): Promise<Body> => JSON.parse(await (await fetch(server.baseUrl + path)).text());
  for (const [path, more] of [
    ["/api/tags", []],
    ["/api/ps", ["context_length", "expires_at", "size_vram"]],
  ] as const) {
    const { models } = await get(path);
    assert.ok(Array.isArray(models) && models.length >= 5);
    for (const model of models) {
      assert.deepEqual(Object.keys(model).toSorted(), [...ENTRY, ...more].toSorted());
      assert.deepEqual(Object.keys(model.details).toSorted(), DETAILS);
    }
  }
  const shown = await ask("/api/show", { model: "told", verbose: true });
  assert.deepEqual(Object.keys(shown).toSorted(), [
    "capabilities",
    "details",
    "license",
    "model_info",
    "modelfile",
    "modified_at",
    "parameters",
    "template",
  ]);
  assert.equal(shown.parameters, `${"temperature".padEnd(31)}1\n${"top_k".padEnd(31)}0`);
  assert.deepEqual(await ask("/api/show", { name: "told:latest" }), shown);
  assert.match(String((await get("/api/version")).version), /^\d+\.\d+\.\d+$/);
});

test("/api/pull loads a model of the repository, and downloads none", async () => {
  const loaded = [{ status: "pulling manifest" }, { status: "success" }];
  assert.deepEqual((await post("/api/pull", { model: "script:latest" })).lines, loaded);
  assert.equal((await post("/api/chat", { model: "later", messages: HELLO })).status, 404);
  assert.deepEqual((await post("/api/pull", { model: "later" })).lines, loaded);
  assert.equal((await post("/api/chat", { model: "later", messages: HELLO })).status, 200);
  assert.deepEqual(await ask("/api/pull", { name: "later" }), { status: "success" });
  const unknown = await post("/api/pull", { model: "llama0" });
  assert.equal(unknown.status, 404);
  assert.match(unknown.text, /model 'llama0' is not served, and this server downloads no models: put its folder/);
  const broken = await post("/api/pull", { model: "broken" });
  assert.match(String(broken.lines.at(-1)?.error), /broken/);
});

test("the page names every field and every option", async () => {
  const document: { readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>> } = JSON.parse(
    await (await fetch(`${server.baseUrl}/openapi.json`)).text(),
  );
  const page = await readFile(PAGE, "utf8");
  const named = new Set([...page.matchAll(/`([a-z_]+)`/g)].map(([, name]) => name));
  const routes = Object.keys(document.paths).filter((path) => path.startsWith("/api/"));
  for (const route of routes) assert.ok(page.includes(route), `the page has no ${route}`);
  const fields = routes.flatMap((route) => propertiesOf(document.paths[route]?.post));
  assert.ok(fields.length > 30);
  for (const name of [...fields, ...Object.keys(OLLAMA_OPTIONS), ...END]) {
    assert.ok(named.has(name), `the page has no \`${name}\``);
  }
});

/** Names of the members of a route's body. */
function propertiesOf(operation: unknown): readonly string[] {
  const path = ["requestBody", "content", "application/json", "schema", "properties"];
  return Object.keys(path.reduce((value: object, key) => Object(Reflect.get(value, key)), Object(operation)));
}
