/** API keys before KServe V2 over HTTP, gRPC and SageMaker: every route, models, rates, and tokens of a language model. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { status } from "@grpc/grpc-js";
import { decode, encode } from "@nereid/server/protocol/grpc/test-peer.test-support";
import { createPipeline } from "../support/llm-pipeline.ts";
import { freePort, type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { grpcRoutes, httpRoutes, RawGrpc } from "./routes.ts";

const sha256 = (key: string): string => createHash("sha256").update(key).digest("hex");
const folder = mkdtempSync(join(tmpdir(), "keys-everywhere-"));
const keyFile = join(folder, "keys.json");
const ledger = join(folder, "usage.jsonl");
const keyOf = (name: string, limits: object = {}): object => ({ name, sha256: sha256(`sk-${name}`), ...limits });
const KEYS = [
  keyOf("open"),
  keyOf("narrow", { models: ["other*"] }),
  keyOf("reader", { apis: ["metadata"] }),
  keyOf("slow", { requests_per_minute: 1 }),
  keyOf("slow-grpc", { requests_per_minute: 1 }),
  keyOf("alone", { concurrent_requests: 1 }),
  keyOf("counted"),
  keyOf("poor", { token_budget: 40 }),
  keyOf("old", { expires: "2020-01-01T00:00:00Z" }),
];
const INFER = { path: "/inference.GRPCInferenceService/ModelInfer", kind: "unary" } as const;
const STREAM_INFER = { path: "/inference.GRPCInferenceService/ModelStreamInfer", kind: "stream" } as const;
const MODEL = "ensemble";

let pipeline: Awaited<ReturnType<typeof createPipeline>>;
let server: ServerProcess;
let grpc: RawGrpc;
let sagemaker: string;

before(async () => {
  writeFileSync(keyFile, JSON.stringify({ keys: KEYS }));
  pipeline = await createPipeline();
  const port = await freePort();
  sagemaker = `http://127.0.0.1:${port}`;
  server = await startServerProcess({
    repositories: [pipeline.path],
    flags: [
      `--api-key-file=${keyFile}`,
      "--api-keys-for=openai,v2,grpc,sagemaker",
      `--usage-ledger=${ledger}`,
      "--allow-sagemaker=true",
      `--sagemaker-port=${port}`,
    ],
  });
  grpc = new RawGrpc(server.grpc);
});
after(async () => {
  grpc[Symbol.dispose]();
  await server.kill();
  await pipeline[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

const bearer = (key: string): Record<string, string> => ({ authorization: `Bearer sk-${key}` });
const WRONG: readonly Record<string, string>[] = [{}, bearer("wrong"), { "x-api-key": "sk-old" }];

async function ask(url: string, method: string, headers: Record<string, string>, body = "{}") {
  const response = await fetch(url, { method, headers, ...(method === "POST" ? { body } : {}) });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

const generate = (key: string, maxTokens = 4, kind = "generate") => {
  const body = JSON.stringify({ text_input: "The sea", max_tokens: maxTokens, stream: kind === "generate_stream" });
  return ask(`${server.baseUrl}/v2/models/${MODEL}/${kind}`, "POST", bearer(key), body);
};

for (const { api, method, path } of httpRoutes(MODEL)) {
  test(`${method} ${path} ${api === "health" ? "needs no key" : "without a key is 401"}`, async () => {
    const expected = api === "health" ? 200 : 401;
    for (const headers of WRONG) {
      const answer = await ask(server.baseUrl + path, method, headers);
      assert.equal(answer.status, expected);
      assert.equal(answer.headers.get("www-authenticate"), expected === 401 ? "Bearer" : null);
    }
    const { status: open } = await ask(server.baseUrl + path.replace(MODEL, "none"), method, bearer("open"));
    assert.ok(![401, 403, 429].includes(open), `${open}`);
  });
}

test("the metrics page of --one-port needs a key", { timeout: 600_000 }, async () => {
  const flags = [`--api-key-file=${keyFile}`, "--api-keys-for=v2", "--one-port=true", "--model-control-mode=explicit"];
  const onePort = await startServerProcess({ repositories: [pipeline.path], flags });
  try {
    const url = `${onePort.baseUrl}/metrics`;
    for (const headers of WRONG) assert.equal((await ask(url, "GET", headers)).status, 401);
    assert.equal((await ask(url, "GET", bearer("open"))).status, 200);
  } finally {
    await onePort.kill();
  }
});

for (const route of grpcRoutes()) {
  test(`gRPC ${route.path} ${route.group === "health" ? "needs no key" : "without a key is UNAUTHENTICATED"}`, async () => {
    for (const headers of WRONG) {
      const { code } = await grpc.call(route, headers);
      assert.equal(code === status.UNAUTHENTICATED, route.group !== "health", `${code}`);
    }
    const { code } = await grpc.call(route, { "x-api-key": "sk-open" });
    assert.ok(![status.UNAUTHENTICATED, status.PERMISSION_DENIED].includes(code), `${code}`);
  });
}

test("a refusal has V2's body", async () => {
  const { text, headers } = await ask(`${server.baseUrl}/v2`, "GET", {});
  assert.equal(headers.get("content-type"), "application/json");
  assert.deepEqual(JSON.parse(text), {
    error: "No API key: send one as Authorization: Bearer KEY or X-API-Key: KEY",
  });
});

test("a key reaches its models only", async () => {
  const named = httpRoutes(MODEL).filter(({ api, path }) => api !== "health" && path.includes(MODEL));
  assert.ok(named.length > 8, `${named.length} routes`);
  for (const { method, path } of named) {
    const { status: narrow, text } = await ask(server.baseUrl + path, method, bearer("narrow"));
    assert.equal(narrow, 403, path);
    assert.match(text, /'narrow' does not have access to model 'ensemble'/);
  }
  const requests = {
    ModelInfer: "ModelInferRequest",
    RepositoryModelLoad: "RepositoryModelLoadRequest",
    RepositoryModelUnload: "RepositoryModelUnloadRequest",
    TraceSetting: "TraceSettingRequest",
  };
  for (const [rpc, type] of Object.entries(requests)) {
    const message = encode(`inference.${type}`, { model_name: MODEL });
    const { code } = await grpc.call({ ...INFER, path: INFER.path.replace("ModelInfer", rpc) }, bearer("narrow"), [
      message,
    ]);
    assert.equal(code, status.PERMISSION_DENIED, rpc);
  }
  for (const rpc of ["ModelMetadata", "ModelConfig", "ModelStatistics"]) {
    const message = encode(`inference.${rpc}Request`, { name: MODEL });
    const { code } = await grpc.call({ ...INFER, path: INFER.path.replace("ModelInfer", rpc) }, bearer("narrow"), [
      message,
    ]);
    assert.equal(code, status.PERMISSION_DENIED, rpc);
  }
});

test("lists show a key the models of its own list only", async () => {
  const lists = [
    ["POST", `${server.baseUrl}/v2/repository/index`],
    ["GET", `${server.baseUrl}/v2/models/stats`],
    ["GET", `${server.baseUrl}/v1/models`],
    ["GET", `${server.baseUrl}/api/tags`],
    ["GET", `${server.baseUrl}/api/ps`],
  ] as const;
  for (const [method, url] of lists) {
    assert.ok((await ask(url, method, bearer("open"))).text.includes(`"${MODEL}"`), url);
    const narrow = await ask(url, method, bearer("narrow"));
    assert.equal(narrow.status, 200, url);
    assert.doesNotMatch(narrow.text, /ensemble|tensorrt_llm|processing/, url);
  }
  for (const [rpc, field] of [
    ["RepositoryIndex", "models"],
    ["ModelStatistics", "model_stats"],
  ] as const) {
    const route = { ...INFER, path: INFER.path.replace("ModelInfer", rpc) };
    const [all, own] = await Promise.all(
      ["open", "narrow"].map(async (key) => {
        const { messages } = await grpc.call(route, bearer(key));
        return decode(`inference.${rpc}Response`, messages[0] ?? Buffer.alloc(0)) as Record<string, unknown[]>;
      }),
    );
    assert.ok((all?.[field] ?? []).length > 3, rpc);
    assert.deepEqual(own?.[field] ?? [], [], rpc);
  }
});

test("a key reaches its APIs only", async () => {
  for (const { api, method, path } of httpRoutes("none")) {
    const { status: code } = await ask(server.baseUrl + path, method, bearer("reader"));
    assert.equal(code === 403, !["metadata", "health"].includes(api), `${method} ${path}: ${code}`);
  }
  for (const route of grpcRoutes()) {
    const { code } = await grpc.call(route, bearer("reader"));
    const isOpen = route.group === undefined || ["metadata", "health"].includes(route.group);
    assert.equal(code === status.PERMISSION_DENIED, !isOpen, `${route.path}: ${code}`);
  }
});

const inferRequest = (maxTokens: number): Buffer =>
  encode("inference.ModelInferRequest", {
    model_name: MODEL,
    inputs: [
      { name: "text_input", datatype: "BYTES", shape: [1, 1], contents: { bytes_contents: [Buffer.from("The sea")] } },
      { name: "max_tokens", datatype: "INT32", shape: [1, 1], contents: { int_contents: [maxTokens] } },
    ],
  });

test("requests per minute: headers count down, then 429, RESOURCE_EXHAUSTED, or a message of the stream", async () => {
  const first = await generate("slow");
  assert.equal(first.status, 200, first.text);
  assert.equal(first.headers.get("x-ratelimit-limit-requests"), "1");
  assert.equal(first.headers.get("x-ratelimit-remaining-requests"), "0");
  const second = await generate("slow");
  assert.equal(second.status, 429);
  assert.match(second.text, /"error":"Rate limit reached for key 'slow' on requests per minute/);
  assert.ok(Number(second.headers.get("retry-after")) > 0);
  const stream = await grpc.call(STREAM_INFER, bearer("slow-grpc"), [inferRequest(4), inferRequest(4)]);
  assert.equal(stream.code, 0);
  const errors = stream.messages.map((bytes) => decode("inference.ModelStreamInferResponse", bytes).error_message);
  assert.equal(errors.filter((text: string) => text.includes("Rate limit reached for key 'slow-grpc'")).length, 1);
  const unary = await grpc.call(INFER, bearer("slow-grpc"), [inferRequest(4)]);
  assert.equal(unary.code, status.RESOURCE_EXHAUSTED);
  const strict = { ...bearer("slow-grpc"), triton_grpc_error: "true" };
  assert.equal((await grpc.call(STREAM_INFER, strict, [inferRequest(4)])).code, status.RESOURCE_EXHAUSTED);
});

test("concurrent requests: a stream counts until its end", async () => {
  const body = JSON.stringify({ text_input: "The sea", max_tokens: 60, stream: true });
  const url = `${server.baseUrl}/v2/models/${MODEL}/generate_stream`;
  const open = await fetch(url, { method: "POST", headers: bearer("alone"), body });
  const [refused, text] = await Promise.all([generate("alone"), open.text()]);
  assert.equal(refused.status, 429);
  assert.match(refused.text, /Too many requests of key 'alone' at once: limit 1, open 1/);
  assert.match(text, /data: /);
  assert.equal((await generate("alone")).status, 200);
});

/** Lines of the ledger, which is written behind the answers. */
async function linesOf(key: string, atLeast: number) {
  for (;;) {
    const lines = readFileSync(ledger, "utf8").split("\n").slice(0, -1);
    const own = lines.map((line) => JSON.parse(line)).filter((line) => line.key === key);
    if (own.length >= atLeast) return own;
    await sleep(10);
  }
}

test("tokens of the engine below an ensemble are in the ledger, by every route", { timeout: 600_000 }, async () => {
  assert.equal((await generate("counted", 5)).status, 200);
  assert.equal((await generate("counted", 5, "generate_stream")).status, 200);
  const { code } = await grpc.call(STREAM_INFER, bearer("counted"), [inferRequest(5)]);
  assert.equal(code, 0);
  const unary = encode("inference.ModelInferRequest", {
    model_name: "preprocessing",
    inputs: [
      { name: "QUERY", datatype: "BYTES", shape: [1, 1], contents: { bytes_contents: [Buffer.from("The sea")] } },
      { name: "REQUEST_OUTPUT_LEN", datatype: "INT32", shape: [1, 1], contents: { int_contents: [5] } },
    ],
  });
  assert.equal((await grpc.call(INFER, bearer("counted"), [unary])).code, 0);
  const lines = await linesOf("counted", 4);
  const summary = lines.map((line) => [line.route, line.model, line.status, line.completion_tokens]);
  assert.deepEqual(summary, [
    [`POST /v2/models/${MODEL}/generate`, MODEL, 200, 5],
    [`POST /v2/models/${MODEL}/generate_stream`, MODEL, 200, 5],
    [STREAM_INFER.path, MODEL, 200, 5],
    [INFER.path, "preprocessing", 200, 0],
  ]);
  const prompts = lines.slice(0, 3).map((line) => line.prompt_tokens);
  assert.ok(prompts[0] > 0);
  assert.equal(new Set(prompts).size, 1);
});

test("a budget that is spent ends the key, and a client that leaves pays for what it got", {
  timeout: 600_000,
}, async () => {
  const leaving = new AbortController();
  const body = JSON.stringify({ text_input: "The sea", max_tokens: 30, stream: true });
  const init = { method: "POST", headers: bearer("poor"), body, signal: leaving.signal };
  const response = await fetch(`${server.baseUrl}/v2/models/${MODEL}/generate_stream`, init);
  const reader = response.body?.getReader();
  await reader?.read();
  leaving.abort();
  const [left] = await linesOf("poor", 1);
  assert.ok(left.completion_tokens > 0, JSON.stringify(left));
  let answer = await generate("poor", 20);
  for (let i = 0; i < 5 && answer.status === 200; i++) answer = await generate("poor", 20);
  assert.equal(answer.status, 429);
  assert.match(answer.text, /The token budget of key 'poor' does not suffice: budget 40/);
});

test("SageMaker: every route but the ping needs a key, and loads are of the key's models", async () => {
  assert.equal((await ask(`${sagemaker}/ping`, "GET", {})).status, 200);
  for (const [method, path] of [
    ["GET", "/models"],
    ["POST", "/models"],
    ["GET", "/models/m"],
    ["DELETE", "/models/m"],
    ["POST", "/models/m/invoke"],
    ["POST", "/invocations"],
  ] as const) {
    const { status: code } = await ask(sagemaker + path, method, {});
    assert.equal(code, path === "/invocations" ? 400 : 401, `${method} ${path}`);
  }
  const load = JSON.stringify({ model_name: "m", url: join(pipeline.path, MODEL) });
  assert.equal((await ask(`${sagemaker}/models`, "POST", bearer("narrow"), load)).status, 403);
  assert.equal((await ask(`${sagemaker}/models`, "GET", bearer("open"))).status, 200);
});
