/** Batches by OpenAI's own client: results, faults, keys, limits, cancellation, and a server that is killed. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { batchesRoutes } from "@nereid/server/protocol/openai/batches/batches-api";
import OpenAI, { APIError, toFile } from "openai";
import type { Batch, BatchCreateParams } from "openai/resources/batches";
import type { CreateEmbeddingResponse } from "openai/resources/embeddings";
import { createModelRepository, type ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const sha256 = (key: string): string => createHash("sha256").update(key).digest("hex");
const folder = mkdtempSync(join(tmpdir(), "openai-batches-"));
const keyFile = join(folder, "keys.json");
const KEYS = [{ name: "one" }, { name: "two" }, { name: "narrow", concurrent_requests: 1 }];

const CONFIG = (name: string): string => `
name: "${name}"
backend: "typescript"
max_batch_size: 0
input [ { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] } ]
`;

/** Answers after so many milliseconds, or when nobody waits any longer. */
const ANSWER_AFTER = (delayMs: number): string => `
export async function execute({ inputs, signal }) {
  for (let i = 0; i < ${delayMs / 10} && !signal.aborted; i++) await new Promise((resolve) => setTimeout(resolve, 10));
  if (signal.aborted) throw new Error("nobody waits");
  return { text_output: [inputs.text_input.strings[0].toUpperCase()] };
}
`;

const VECTORS = `
name: "vectors"
backend: "typescript"
max_batch_size: 4
input [ { name: "text" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "embedding" data_type: TYPE_FP32 dims: [ 2 ] } ]
`;

/** A text's vector tells its length. */
const LENGTHS = `
export function execute({ inputs }) {
  const { strings } = inputs.text;
  return { embedding: { data: Float32Array.from(strings.flatMap((text) => [text.length, 1])), shape: [strings.length, 2] } };
}
`;

let models: ModelRepository;
let server: ServerProcess;

const start = () =>
  startServerProcess({
    repositories: [models.path],
    flags: [`--api-key-file=${keyFile}`, `--openai-files-dir=${join(folder, "store")}`, "--openai-batch-concurrency=4"],
  });

before(async () => {
  const keys = KEYS.map((key) => ({ ...key, sha256: sha256(`sk-${key.name}`) }));
  writeFileSync(keyFile, JSON.stringify({ keys }));
  models = await createModelRepository({
    files: {
      "upper/config.pbtxt": CONFIG("upper"),
      "upper/1/model.ts": ANSWER_AFTER(30),
      "vectors/config.pbtxt": VECTORS,
      "vectors/1/model.ts": LENGTHS,
      "late/config.pbtxt": CONFIG("late"),
      "late/1/model.ts": ANSWER_AFTER(60_000),
    },
  });
  server = await start();
});

after(async () => {
  await server?.kill();
  await models?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

const clientOf = (name = "one"): OpenAI =>
  new OpenAI({ apiKey: `sk-${name}`, baseURL: `${server.baseUrl}/v1`, maxRetries: 0 });

const lineOf = (id: string, body: object, url = "/v1/completions"): object => ({
  custom_id: id,
  method: "POST",
  url,
  body,
});

async function create(
  lines: readonly (object | string)[],
  name = "one",
  endpoint: BatchCreateParams["endpoint"] = "/v1/completions",
  more: Pick<BatchCreateParams, "output_expires_after"> = {},
): Promise<Batch> {
  const text = lines.map((line) => (typeof line === "string" ? line : JSON.stringify(line))).join("\n");
  const file = await clientOf(name).files.create({
    file: await toFile(Buffer.from(text), "in.jsonl"),
    purpose: "batch",
  });
  return clientOf(name).batches.create({ input_file_id: file.id, endpoint, completion_window: "24h", ...more });
}

async function until(id: string, isReached: (batch: Batch) => boolean, name = "one"): Promise<Batch> {
  for (;;) {
    const batch = await clientOf(name).batches.retrieve(id);
    if (isReached(batch)) return batch;
    await sleep(20);
  }
}

const isOver = ({ status }: Batch): boolean => ["completed", "failed", "cancelled", "expired"].includes(status);

interface Line {
  readonly id: string;
  readonly custom_id: string;
  readonly response: { readonly status_code: number; readonly request_id: string; readonly body: Body } | null;
  readonly error: { readonly code: string } | null;
}

interface Body {
  readonly choices: readonly { readonly text: string }[];
  readonly error: { readonly code: string; readonly param: string };
}

/** Lines of a result file, by custom_id. */
async function linesOf(fileId: string | undefined, name = "one"): Promise<Map<string, Line>> {
  assert.ok(fileId !== undefined);
  const text = await (await clientOf(name).files.content(fileId)).text();
  const lines: Line[] = text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  const byId = new Map(lines.map((line) => [line.custom_id, line]));
  assert.equal(byId.size, lines.length, "each request has one line");
  return byId;
}

async function errorOf(promise: Promise<unknown>): Promise<APIError> {
  const error = await promise.then(
    () => assert.fail("no error"),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof APIError, String(error));
  return error;
}

const ids = (count: number): string[] => Array.from({ length: count }, (_, i) => `r${i}`);

test("requests are answered into the output file, refused ones into the error file", async () => {
  const created = await create([
    ...ids(10).map((id) => lineOf(id, { model: "upper", prompt: id })),
    lineOf("nobody", { model: "nobody", prompt: "x" }),
    lineOf("hot", { model: "upper", prompt: "x", temperature: 9 }),
    lineOf("stream", { model: "upper", prompt: "x", stream: true }),
  ]);
  assert.equal(created.status, "validating");
  const batch = await until(created.id, isOver);
  assert.equal(batch.status, "completed");
  assert.deepEqual(batch.request_counts, { total: 13, completed: 10, failed: 3 });
  const output = await linesOf(batch.output_file_id);
  assert.deepEqual(
    ids(10).map((id) => [output.get(id)?.response?.status_code, output.get(id)?.response?.body.choices[0]?.text]),
    ids(10).map((id) => [200, id.toUpperCase()]),
  );
  assert.match(output.get("r0")?.response?.request_id ?? "", /^req_/);
  const errors = await linesOf(batch.error_file_id);
  const refusals = ["nobody", "hot", "stream"].map((id) => {
    const { response } = errors.get(id) ?? {};
    return [response?.status_code, response?.body.error.code, response?.body.error.param];
  });
  assert.deepEqual(refusals, [
    [404, "model_not_found", null],
    [400, "decimal_above_max_value", "temperature"],
    [400, "unsupported_value", "stream"],
  ]);
});

test("chats and responses are batches too", async () => {
  const chat = await create(
    [lineOf("a", { model: "upper", messages: [{ role: "user", content: "hello" }] }, "/v1/chat/completions")],
    "one",
    "/v1/chat/completions",
  );
  const response = await create(
    [lineOf("a", { model: "upper", input: "hello" }, "/v1/responses")],
    "one",
    "/v1/responses",
  );
  for (const { id } of [chat, response]) {
    const batch = await until(id, isOver);
    assert.deepEqual(batch.request_counts, { total: 1, completed: 1, failed: 0 });
  }
});

test("each input of an array is embedded, also where there are more than the model batches", async () => {
  const inputs = [["a", "bb", "ccc"], ["dddd"], Array.from({ length: 9 }, (_, i) => "x".repeat(i + 1))];
  const lines = inputs.map((input, i) => lineOf(`r${i}`, { model: "vectors", input }, "/v1/embeddings"));
  const wrong = lineOf("wrong", { model: "vectors", input: [] }, "/v1/embeddings");
  const lifetime = { anchor: "created_at" as const, seconds: 7200 };
  const { id } = await create([...lines, wrong], "one", "/v1/embeddings", { output_expires_after: lifetime });
  const batch = await until(id, isOver);
  assert.deepEqual(batch.request_counts, { total: 4, completed: 3, failed: 1 });
  const answers = await linesOf(batch.output_file_id);
  for (const [i, input] of inputs.entries()) {
    const body = answers.get(`r${i}`)?.response?.body as unknown as CreateEmbeddingResponse;
    const found = body.data.map(({ index, embedding: [length = 0, one = 1] }) => [index, Math.round(length / one)]);
    assert.deepEqual(
      found,
      input.map((text, index) => [index, text.length]),
    );
  }
  assert.deepEqual([...(await linesOf(batch.error_file_id)).keys()], ["wrong"]);
  const { created_at, expires_at } = await clientOf().files.retrieve(String((await until(id, isOver)).output_file_id));
  assert.ok(Math.abs(Number(expires_at) - created_at - 7200) <= 5, `${created_at} to ${expires_at}`);
});

test("a wrong input file fails the batch with the faults of its lines", async () => {
  const good = lineOf("a", { model: "upper", prompt: "x" });
  const { id } = await create([good, good, "{", lineOf("b", {}, "/v1/embeddings"), { custom_id: "c" }]);
  const batch = await until(id, isOver);
  assert.equal(batch.status, "failed");
  assert.deepEqual(
    batch.errors?.data?.map(({ code, line, param }) => [line, code, param]),
    [
      [2, "duplicate_custom_id", "custom_id"],
      [3, "invalid_json_line", undefined],
      [4, "invalid_url", "url"],
      [5, "missing_required_parameter", "method"],
    ],
  );
  const empty = await create([""]);
  const failed = await until(empty.id, isOver);
  assert.deepEqual(
    failed.errors?.data?.map(({ code }) => code),
    ["empty_file"],
  );
});

test("a batch belongs to its key, as its files do", async () => {
  const { id, input_file_id: fileId } = await create([lineOf("a", { model: "upper", prompt: "x" })]);
  await until(id, isOver);
  const other = clientOf("two");
  assert.equal((await errorOf(other.batches.retrieve(id))).status, 404);
  assert.equal((await errorOf(other.batches.cancel(id))).status, 404);
  assert.deepEqual((await other.batches.list()).data, []);
  const refused = await errorOf(
    other.batches.create({ input_file_id: fileId, endpoint: "/v1/completions", completion_window: "24h" }),
  );
  assert.deepEqual([refused.status, refused.code, refused.param], [400, "file_not_found", "input_file_id"]);
  const mine = await clientOf().batches.list({ limit: 1 });
  assert.deepEqual(
    mine.data.map((batch) => batch.id),
    [id],
  );
  assert.equal(mine.has_more, true);
});

test("requests wait for the limits of their key", async () => {
  const { id } = await create(
    ids(2).map((each) => lineOf(each, { model: "upper", prompt: "x" })),
    "narrow",
  );
  const batch = await until(id, isOver, "narrow");
  assert.deepEqual(batch.request_counts, { total: 2, completed: 2, failed: 0 });
});

test("a cancelled batch keeps its answers and names the requests that did not run", async () => {
  const lines = [
    lineOf("a", { model: "upper", prompt: "x" }),
    ...ids(40).map((id) => lineOf(id, { model: "late", prompt: "x" })),
  ];
  const { id } = await create(lines);
  await until(id, ({ request_counts: counts }) => counts?.completed === 1);
  assert.equal((await clientOf().batches.cancel(id)).status, "cancelling");
  const batch = await until(id, isOver);
  assert.equal(batch.status, "cancelled");
  assert.deepEqual([...(await linesOf(batch.output_file_id)).keys()], ["a"]);
  const errors = await linesOf(batch.error_file_id);
  assert.deepEqual(new Set([...errors.values()].map(({ error }) => error?.code)), new Set(["batch_cancelled"]));
  assert.deepEqual([...errors.keys()].sort(), ids(40).sort());
});

test("a server that is killed goes on with the batch, and asks nothing twice", async () => {
  const { id } = await create(ids(48).map((each) => lineOf(each, { model: "upper", prompt: each })));
  await until(id, ({ request_counts: counts }) => (counts?.completed ?? 0) >= 8);
  await server.kill();
  server = await start();
  const batch = await until(id, isOver);
  assert.equal(batch.status, "completed");
  assert.deepEqual(batch.request_counts, { total: 48, completed: 48, failed: 0 });
  assert.deepEqual([...(await linesOf(batch.output_file_id)).keys()].sort(), ids(48).sort());
});

test("a batch whose window is over ends with what it has, and names the requests that did not run", async () => {
  const lines = [
    lineOf("a", { model: "upper", prompt: "x" }),
    ...ids(8).map((each) => lineOf(each, { model: "late", prompt: "x" })),
  ];
  const { id } = await create(lines);
  await until(id, ({ request_counts: counts }) => counts?.completed === 1);
  await server.kill();
  const stored = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) => path.includes(id));
  let changed = 0;
  for (const path of stored.map((each) => join(folder, each)).filter((each) => statSync(each).isFile())) {
    const text = readFileSync(path, "utf8");
    const expired = text.replace(/"expires_at":\d+/, '"expires_at":1');
    if (expired === text) continue;
    writeFileSync(path, expired);
    changed += 1;
  }
  assert.equal(changed, 1, stored.join());
  server = await start();
  const batch = await until(id, isOver);
  assert.equal(batch.status, "expired");
  assert.ok((batch.expired_at ?? 0) > 1);
  assert.deepEqual([...(await linesOf(batch.output_file_id)).keys()], ["a"]);
  const errors = await linesOf(batch.error_file_id);
  assert.deepEqual(new Set([...errors.values()].map(({ error }) => error?.code)), new Set(["batch_expired"]));
  assert.equal(errors.size, 8);
});

test("without a folder every route says so", async () => {
  const call = { call: { query: "" }, params: new Map(), requestId: "req_1" } as never;
  const body = { input_file_id: "f", endpoint: "/v1/completions", completion_window: "24h" };
  for (const route of batchesRoutes(undefined)) {
    await assert.rejects(route.handle(call, body), { status: 404, code: "files_not_enabled" });
  }
});
