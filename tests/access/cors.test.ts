/** Browsers on pages of other origins, before each API of a real server with keys: preflight, answer, error, metrics. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { createScriptedModels, ONLY_ECHO } from "../openai/scripted-models.ts";
import { freePort, type ServerProcess, startServerProcess } from "../support/server-process.ts";

const PAGE = "https://app.example";
const KEY = "sk-page";
const folder = mkdtempSync(join(tmpdir(), "cors-"));
let scripted: Awaited<ReturnType<typeof createScriptedModels>>;
let server: ServerProcess;
let openAiPort: number;

before(async () => {
  const keyFile = join(folder, "keys.json");
  const sha256 = createHash("sha256").update(KEY).digest("hex");
  writeFileSync(keyFile, JSON.stringify({ keys: [{ name: "page", sha256, requests_per_minute: 1000 }] }));
  scripted = await createScriptedModels();
  openAiPort = await freePort();
  const flags = [
    ...ONLY_ECHO,
    `--cors-origins=${PAGE},http://localhost:5173`,
    `--api-key-file=${keyFile}`,
    "--api-keys-for=openai,v2",
    `--openai-port=${openAiPort}`,
  ];
  server = await startServerProcess({ repositories: [scripted.path], flags });
});
after(async () => {
  await server.kill();
  await scripted[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

const MESSAGES = [{ role: "user", content: "say: yes" }];
const CALLS: readonly (readonly [api: string, path: string, body: object])[] = [
  ["OpenAI", "/v1/chat/completions", { model: "echo", messages: MESSAGES }],
  ["OpenAI's stream", "/v1/chat/completions", { model: "echo", messages: MESSAGES, stream: true }],
  ["Anthropic", "/v1/messages", { model: "echo", messages: MESSAGES, max_tokens: 8 }],
  ["Ollama", "/api/chat", { model: "echo", messages: MESSAGES }],
  ["V2's stream", "/v2/models/echo/generate_stream", { text_input: "say: yes" }],
  ["V2", "/v2/repository/index", {}],
];

async function ask(url: string, method: string, headers: Record<string, string>, body?: object) {
  const init = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await fetch(url, { method, headers, ...init });
  await response.arrayBuffer();
  return { status: response.status, header: (name: string) => response.headers.get(name) };
}

const preflight = (url: string, origin: string) =>
  ask(url, "OPTIONS", {
    origin,
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type",
  });

for (const [api, path, body] of CALLS) {
  test(`${api}: a preflight needs no key, and the page reads answers and refusals`, async () => {
    for (const origin of [PAGE, "http://localhost:5173"]) {
      const asked = await preflight(server.baseUrl + path, origin);
      assert.equal(asked.status, 204);
      assert.equal(asked.header("access-control-allow-origin"), origin);
      assert.equal(asked.header("access-control-allow-headers"), "authorization,content-type");
      assert.equal(asked.header("access-control-allow-credentials"), "true");
    }
    for (const [key, status] of [
      [KEY, 200],
      ["sk-wrong", 401],
    ] as const) {
      const headers = { origin: PAGE, authorization: `Bearer ${key}` };
      const answer = await ask(server.baseUrl + path, "POST", headers, body);
      assert.equal(answer.status, status);
      assert.equal(answer.header("access-control-allow-origin"), PAGE);
      assert.match(
        answer.header("access-control-expose-headers") ?? "",
        /x-request-id.*x-ratelimit-remaining-requests/,
      );
      assert.equal(answer.header("vary"), "Origin");
    }
  });

  test(`${api}: other origins read nothing, and programs notice nothing`, async () => {
    const refused = await preflight(server.baseUrl + path, "https://evil.example");
    assert.equal(refused.status, 403);
    assert.equal(refused.header("access-control-allow-origin"), null);
    const authorization = `Bearer ${KEY}`;
    const foreign = await ask(server.baseUrl + path, "POST", { origin: "https://evil.example", authorization }, body);
    assert.equal(foreign.header("access-control-allow-origin"), null);
    assert.equal((await ask(server.baseUrl + path, "POST", { authorization }, body)).status, 200);
  });
}

test("the OpenAI port has the same rules", async () => {
  const url = `http://127.0.0.1:${openAiPort}/v1/models`;
  assert.equal((await preflight(url, PAGE)).status, 204);
  const answer = await ask(url, "GET", { origin: PAGE, "x-api-key": KEY });
  assert.equal(answer.header("access-control-allow-origin"), PAGE);
});

test("no page reads the metrics unless that is asked for", async () => {
  const url = `http://127.0.0.1:${server.metrics}/metrics`;
  const page = await ask(url, "GET", { origin: PAGE, "x-api-key": KEY });
  assert.deepEqual([page.status, page.header("access-control-allow-origin")], [200, null]);
  assert.equal((await preflight(url, PAGE)).header("access-control-allow-origin"), null);
});

test("any origin, metrics asked for, and off by default", { timeout: 600_000 }, async () => {
  const [open, plain] = await Promise.all([
    startServerProcess({
      repositories: [scripted.path],
      flags: [...ONLY_ECHO, "--one-port=true", "--cors-origins=*", "--cors-metrics=true"],
    }),
    startServerProcess({ repositories: [scripted.path], flags: ONLY_ECHO }),
  ]);
  try {
    for (const base of [open.baseUrl, `http://127.0.0.1:${open.metrics}`]) {
      const page = await ask(`${base}/metrics`, "GET", { origin: PAGE });
      assert.deepEqual([page.status, page.header("access-control-allow-origin")], [200, "*"]);
      assert.equal(page.header("access-control-allow-credentials"), null);
      assert.equal((await preflight(`${base}/metrics`, PAGE)).status, 204);
    }
    const list = await ask(`${plain.baseUrl}/v1/models`, "GET", { origin: PAGE });
    assert.deepEqual([list.status, list.header("access-control-allow-origin"), list.header("vary")], [200, null, null]);
    assert.equal((await preflight(`${plain.baseUrl}/v1/models`, PAGE)).status, 405);
  } finally {
    await Promise.all([open.kill(), plain.kill()]);
  }
});
