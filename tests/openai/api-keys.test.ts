/** API keys over real servers: who may ask what, limits with their headers, the ledger, and every route without a key. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { anthropicRoutes } from "@nereid/server/protocol/anthropic/anthropic-api";
import { ollamaRoutes } from "@nereid/server/protocol/ollama/ollama-api";
import { openAiRoutes } from "@nereid/server/protocol/openai/openai-api";
import { openApiRoutes } from "@nereid/server/protocol/openapi/openapi-api";
import { Validator } from "@seriousme/openapi-schema-validator";
import OpenAI, { APIError } from "openai";
import { BODY_CASES } from "../support/api-bodies.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { createScriptedModels } from "./scripted-models.ts";

const sha256 = (key: string): string => createHash("sha256").update(key).digest("hex");
const folder = mkdtempSync(join(tmpdir(), "api-keys-"));
const keyFile = join(folder, "keys.json");
const ledger = join(folder, "usage.jsonl");
const KEYS = [
  { name: "open", sha256: sha256("sk-open") },
  { name: "narrow", sha256: sha256("sk-narrow"), models: ["other*"] },
  { name: "slow", sha256: sha256("sk-slow"), requests_per_minute: 2 },
  { name: "old", sha256: sha256("sk-old"), expires: "2020-01-01T00:00:00Z" },
];

let scripted: Awaited<ReturnType<typeof createScriptedModels>>;
let server: ServerProcess;

before(async () => {
  writeFileSync(keyFile, JSON.stringify({ keys: KEYS }));
  scripted = await createScriptedModels();
  const flags = [`--api-key-file=${keyFile}`, `--usage-ledger=${ledger}`];
  server = await startServerProcess({ repositories: [scripted.path], flags });
});
after(async () => {
  await server.kill();
  await scripted[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

function clientOf(apiKey: string): OpenAI {
  return new OpenAI({ apiKey, baseURL: `${server.baseUrl}/v1`, maxRetries: 0 });
}

const ask = (apiKey: string, words = "yes") =>
  clientOf(apiKey).chat.completions.create({ model: "echo", messages: [{ role: "user", content: `say: ${words}` }] });

const CONTEXT = { server: undefined, models: undefined } as never;
const TEXT_ROUTES = [...openAiRoutes(CONTEXT), ...anthropicRoutes(CONTEXT), ...ollamaRoutes(CONTEXT)];
const ROUTES = [...TEXT_ROUTES, ...openApiRoutes({ groups: [], version: "", keys: undefined })];

for (const { api, method, path } of ROUTES) {
  const [status, challenge] = api === "health" ? [200, null] : [401, "Bearer"];
  test(`${method} ${path} without a key is ${status}`, async () => {
    const url = server.baseUrl + path.replace(/\{.*\}/, "echo");
    for (const headers of [{}, { authorization: "Bearer sk-wrong" }, { "x-api-key": "sk-old" }]) {
      const response = await fetch(url, { method, headers, ...(method === "POST" ? { body: "{}" } : {}) });
      assert.equal(response.status, status);
      assert.equal(response.headers.get("www-authenticate"), challenge);
    }
  });
}

test("a key opens /openapi.json, a valid document of every route, and the page that shows it", async () => {
  const headers = { authorization: "Bearer sk-open" };
  const document = await (await fetch(`${server.baseUrl}/openapi.json`, { headers })).json();
  const { valid, errors } = await new Validator().validate(document as Record<string, unknown>);
  assert.ok(valid, JSON.stringify({ errors }).slice(0, 1000));
  const { paths, security } = document as { paths: Record<string, Record<string, unknown>>; security: unknown };
  for (const { method, path } of ROUTES) {
    assert.ok(paths[path.replace("*", "")]?.[method.toLowerCase()] !== undefined, `${method} ${path}`);
  }
  assert.ok(paths["/v2/models/{model}/infer"] !== undefined);
  assert.deepEqual(security, [{ bearer: [] }, { header: [] }]);
  const page = await fetch(`${server.baseUrl}/docs`, { headers });
  assert.equal(page.headers.get("content-type"), "text/html; charset=utf-8");
  const text = await page.text();
  for (const path of Object.keys(paths)) assert.ok(text.includes(`<code>${path}</code>`), path);
});

test("a key opens the API, by OpenAI's header and by Anthropic's; V2 needs none", async () => {
  assert.equal((await ask("sk-open")).choices[0]?.message.content, "yes");
  const models = await fetch(`${server.baseUrl}/v1/models`, { headers: { "x-api-key": "sk-open" } });
  assert.equal(models.status, 200);
  assert.equal((await fetch(`${server.baseUrl}/v2/health/ready`)).status, 200);
});

test("OpenAI's client gets its own kinds of errors", async () => {
  const refusals: readonly (readonly [key: string, kind: unknown, code: string, message: RegExp])[] = [
    ["sk-wrong", OpenAI.AuthenticationError, "invalid_api_key", /Incorrect API key provided/],
    ["sk-old", OpenAI.AuthenticationError, "invalid_api_key", /API key 'old' expired on 2020-01-01/],
    ["sk-narrow", OpenAI.PermissionDeniedError, "model_access_denied", /'narrow' does not have access to model 'echo'/],
  ];
  for (const [key, kind, code, message] of refusals) {
    await assert.rejects(ask(key), (error: unknown) => {
      assert.ok(error instanceof APIError && error instanceof (kind as typeof APIError), String(error));
      assert.equal(error.code, code);
      assert.match(error.message, message);
      return true;
    });
  }
});

for (const { path, body } of BODY_CASES) {
  test(`POST ${path} tells a key nothing of models beyond its list`, async () => {
    const answers = await Promise.all(
      ["echo", "nowhere"].map(async (model) => {
        const sent = { ...body, model, ...("name" in body ? { name: model } : {}) };
        const headers = { authorization: "Bearer sk-narrow", "content-type": "application/json" };
        const response = await fetch(server.baseUrl + path, { method: "POST", headers, body: JSON.stringify(sent) });
        return { status: response.status, text: (await response.text()).replaceAll(model, "?") };
      }),
    );
    const [there, absent] = answers.map(({ status, text }) => ({ status, text: text.replace(/req_\w+/, "") }));
    assert.equal(there?.status, 403, there?.text);
    assert.deepEqual(there, absent);
  });
}

test("requests per minute: headers count down, then 429 says when to come back", async () => {
  const first = await clientOf("sk-slow").models.list().asResponse();
  assert.equal(first.headers.get("x-ratelimit-limit-requests"), "2");
  const { response } = await ask("sk-slow").withResponse();
  assert.equal(response.headers.get("x-ratelimit-remaining-requests"), "1");
  await ask("sk-slow");
  await assert.rejects(ask("sk-slow"), (error: unknown) => {
    assert.ok(error instanceof OpenAI.RateLimitError);
    assert.equal(error.code, "rate_limit_exceeded");
    const seconds = Number(error.headers?.get("retry-after"));
    assert.ok(seconds >= 1 && seconds <= 30, `${seconds} s`);
    return true;
  });
});

test("the ledger and the metrics tell who used what; a removed key is refused", async () => {
  await ask("sk-open", "for the ledger");
  const stream = await clientOf("sk-open").chat.completions.create({
    model: "echo",
    messages: [{ role: "user", content: "say: streamed" }],
    stream: true,
  });
  for await (const chunk of stream) assert.equal(chunk.object, "chat.completion.chunk");
  const page = await (await fetch(`http://127.0.0.1:${server.metrics}/metrics`)).text();
  assert.match(page, /nereid_key_requests_total\{key="open",model="echo",status="2xx"\} [1-9]/);
  assert.match(page, /nereid_key_open_requests\{key="open"\} 0/);
  const lines = readFileSync(ledger, "utf8").trim().split("\n");
  const own = lines.map((line) => JSON.parse(line)).filter(({ key }) => key === "open");
  assert.ok(own.length >= 3, `${own.length} lines`);
  assert.equal(own[0].route, "POST /v1/chat/completions");
  assert.equal(own[0].status, 200);
  writeFileSync(keyFile, JSON.stringify({ keys: KEYS.filter(({ name }) => name !== "open") }));
  let status = 200;
  while (status === 200) {
    status = (await fetch(`${server.baseUrl}/v1/models`, { headers: { "x-api-key": "sk-open" } })).status;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.equal(status, 401);
});
