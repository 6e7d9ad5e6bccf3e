/**
 * Routes and answers of Triton's own OpenAI front end: models loaded and unloaded, health, and with `--openai-frontend=triton`
 * its errors, its list of models and its metrics. Its own tests run by tests/upstream-openai.
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { ModelRepository } from "../support/model-repository.ts";
import { freePort, type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { createScriptedModels } from "./scripted-models.ts";

const CHAT = { model: "echo", messages: [{ role: "user", content: "say: yes" }] };
const KEY = { "admin-key": "admin-value" };
let scripted: ModelRepository;
let server: ServerProcess;
let url: string;

before(async () => {
  scripted = await createScriptedModels();
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  const flags = [
    "--model-control-mode=explicit",
    "--load-model=echo",
    "--load-model=numbers",
    `--openai-port=${port}`,
    "--openai-frontend=triton",
    "--http-restricted-api=model-repository:admin-key=admin-value",
    "--http-max-input-size=10000",
  ];
  server = await startServerProcess({ repositories: [scripted.path], flags });
});

after(async () => {
  await server?.stop();
  await scripted?.[Symbol.asyncDispose]();
});

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

async function call(
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = KEY,
): Promise<Answer> {
  const text = body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) };
  const response = await fetch(url + path, { method, headers, ...text });
  const answer = await response.text();
  return { status: response.status, body: answer.startsWith("{") ? JSON.parse(answer) : answer };
}

const post = (path: string, body?: unknown): Promise<Answer> => call("POST", path, body);

async function names(): Promise<string[]> {
  const { body } = await call("GET", "/v1/models");
  return (body as { data: { id: string }[] }).data.map(({ id }) => id);
}

test("a model is loaded once, listed, used and unloaded", async () => {
  const loaded = await post("/v1/models/slow/load");
  assert.equal(loaded.status, 200);
  assert.deepEqual(
    [Reflect.get(Object(loaded.body), "id"), Reflect.get(Object(loaded.body), "owned_by")],
    ["slow", "Triton Inference Server"],
  );
  assert.ok((await names()).includes("slow"));
  assert.deepEqual(await post("/v1/models/slow/load"), {
    status: 400,
    body: { detail: "Model 'slow' is already loaded" },
  });
  assert.deepEqual(await post("/v1/models/slow/unload"), { status: 200, body: { status: "success", model: "slow" } });
  assert.deepEqual(await post("/v1/models/slow/unload"), { status: 400, body: { detail: "Unknown model: slow" } });
  assert.deepEqual(await call("GET", "/v1/models/slow"), { status: 404, body: { detail: "Unknown model: slow" } });
});

test("of many loads at once one loads, and the others find the model loaded", async () => {
  const answers = await Promise.all(Array.from({ length: 6 }, () => post("/v1/models/caller/load")));
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 400, 400, 400, 400, 400]);
  assert.equal((await post("/v1/models/caller/unload")).status, 200);
});

test("names that are none are refused, and paths that are none are unknown", async () => {
  for (const name of ["%20", "..%2Fecho"]) assert.equal((await post(`/v1/models/${name}/load`)).status, 400, name);
  for (const name of ["echo/more", ""]) assert.equal((await post(`/v1/models/${name}/load`)).status, 404, name);
  const missing = await post("/v1/models/nothing/load");
  assert.equal(missing.status, 500);
  assert.match(JSON.stringify(missing.body), /failed to poll from model repository/);
});

test("without its header a restricted route is 401", async () => {
  const answer = await call("POST", "/v1/models/echo/unload", undefined, {});
  assert.equal(answer.status, 401);
});

test("health and metrics answer at the port of the API", async () => {
  for (const path of ["/health", "/health/ready"]) assert.equal((await call("GET", path)).status, 200);
  assert.match(String((await call("GET", "/metrics")).body), /nv_inference_count/);
});

test("models that no route serves are listed too", async () => {
  assert.deepEqual((await names()).sort(), ["echo", "numbers"]);
});

/** The case, the path, the body, and the status and first words of the answer. */
const REFUSALS: readonly (readonly [what: string, path: string, body: unknown, status: number, detail: unknown])[] = [
  ["an unknown model", "/v1/completions", { model: "none", prompt: "x" }, 400, "Unknown model: none"],
  [
    "no messages",
    "/v1/chat/completions",
    { ...CHAT, messages: [] },
    422,
    [["too_short", ["body", "messages"], "List should have at least 1 item after validation, not 0"]],
  ],
  [
    "a message without a role",
    "/v1/chat/completions",
    { ...CHAT, messages: [{}] },
    422,
    [["missing", ["body", "messages", 0, "role"], "Field required"]],
  ],
  [
    "a number out of range",
    "/v1/chat/completions",
    { ...CHAT, top_logprobs: 25, logprobs: true },
    422,
    [["less_than_equal", ["body", "top_logprobs"], "Input should be less than or equal to 20"]],
  ],
  [
    "a wrong type",
    "/v1/embeddings",
    { model: "numbers", input: 3 },
    422,
    [["type_error", ["body", "input"], "Input should be a valid string"]],
  ],
  [
    "an empty text",
    "/v1/embeddings",
    { model: "numbers", input: "" },
    422,
    [["too_short", ["body", "input"], "Value should have at least 1 item after validation, not 0"]],
  ],
  [
    "stream options without a stream",
    "/v1/chat/completions",
    { ...CHAT, stream_options: { include_usage: true } },
    400,
    "`stream_options` can only be used when `stream` is True",
  ],
  [
    "a tool choice without tools",
    "/v1/chat/completions",
    { ...CHAT, tool_choice: "required" },
    400,
    "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
  ],
];

for (const [what, path, body, status, detail] of REFUSALS) {
  test(`${what} is refused as Triton's front end does: ${status}`, async () => {
    const answer = await post(path, body);
    assert.equal(answer.status, status);
    const given: unknown = Reflect.get(Object(answer.body), "detail");
    const entries = Array.isArray(given) ? given.map(({ type, loc, msg }) => [type, loc, msg]) : given;
    assert.deepEqual(entries, detail);
  });
}

test("a body that is too large has OpenAI's object, also for a route without a body", async () => {
  const message =
    "Request size of 20000 bytes exceeds the maximum allowed input size of 10000 bytes. Use --http-max-input-size to increase the limit.";
  for (const path of ["/v1/chat/completions", "/v1/models/echo/load"]) {
    const answer = await post(path, "x".repeat(20_000));
    assert.deepEqual(answer, {
      status: 413,
      body: { error: { message, type: "invalid_request_error", code: "content_too_large" } },
    });
  }
});

test("without the flag the routes answer with OpenAI's errors", async () => {
  await using other = await createScriptedModels();
  const plain = await startServerProcess({ repositories: [other.path] });
  try {
    const answer = await fetch(`${plain.baseUrl}/v1/models/echo/load`, { method: "POST" });
    assert.equal(answer.status, 400);
    assert.match(
      await answer.text(),
      /"error":\{"message":"Model load\/unload requires --model-control-mode=explicit"/,
    );
    assert.equal((await fetch(`${plain.baseUrl}/health`)).status, 200);
    await plain.stop();
  } finally {
    await plain.kill();
  }
});
