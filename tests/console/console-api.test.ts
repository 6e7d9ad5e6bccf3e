/** The routes of the console over a real server: what they tell, what they change, and whom they refuse. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import type {
  ConsoleConfig,
  ConsoleConfigCheck,
  ConsoleDiagnosis,
  ConsoleLive,
  ConsoleLogs,
  ConsoleOverview,
  ConsoleTrace,
  ConsoleTraces,
} from "@nereid/server/protocol/console/console-types";
import { inferSnippets } from "../../web/app/playground/snippets.ts";
import { readPage } from "../../web/src/console-module.ts";
import type { ModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { CONSOLE_FLAGS, createConsoleModels } from "./console-models.ts";

const REQUEST = { inputs: [{ name: "X", datatype: "FP32", shape: [1, 4], data: [1, 2, 3, 4] }] };
const sha256 = (key: string): string => createHash("sha256").update(key).digest("hex");
const folder = mkdtempSync(join(tmpdir(), "console-api-"));

let models: ModelRepository;
let server: ServerProcess;
/** With API keys, and a header in front of the logs. */
let guarded: ServerProcess;

before(async () => {
  models = await createConsoleModels();
  const keyFile = join(folder, "keys.json");
  const keys = [
    { name: "all", sha256: sha256("sk-all") },
    { name: "narrow", sha256: sha256("sk-narrow"), models: ["prepare"] },
    { name: "asker", sha256: sha256("sk-asker"), apis: ["inference"] },
  ];
  writeFileSync(keyFile, JSON.stringify({ keys }));
  const start = (...flags: readonly string[]): Promise<ServerProcess> =>
    startServerProcess({ repositories: [models.path], flags: [...CONSOLE_FLAGS, ...flags], waitFor: "live" });
  [server, guarded] = await Promise.all([
    start(),
    start(`--api-key-file=${keyFile}`, "--api-keys-for=v2", "--http-restricted-api=logging:admin=secret"),
  ]);
});
after(async () => {
  await Promise.all([server?.kill(), guarded?.kill()]);
  await models?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

async function get<T>(path: string): Promise<T> {
  const response = await fetch(`${server.baseUrl}/console/api/${path}`);
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return JSON.parse(text) as T;
}

async function post(path: string, body: unknown = {}): Promise<{ readonly status: number; readonly text: string }> {
  const init = { method: "POST", body: JSON.stringify(body) };
  const response = await fetch(`${server.baseUrl}/${path}`, init);
  return { status: response.status, text: await response.text() };
}

async function infer(model: string): Promise<void> {
  const { status, text } = await post(`v2/models/${model}/infer`, REQUEST);
  assert.equal(status, 200, text);
}

async function statusOf(path: string, headers: Record<string, string> = {}, at = guarded): Promise<number> {
  const response = await fetch(`${at.baseUrl}${path}`, { headers });
  await response.arrayBuffer();
  return response.status;
}

test("the page comes compressed, may load nothing from elsewhere, and names files that exist", async () => {
  const response = await fetch(`${server.baseUrl}/console`);
  const html = await response.text();
  assert.equal(response.headers.get("content-encoding"), "gzip");
  assert.match(response.headers.get("content-security-policy") ?? "", /default-src 'none'/);
  const files = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path = ""]) => path);
  assert.ok(files.length >= 3, html);
  for (const path of files) assert.equal(await statusOf(path, {}, server), 200, path);
});

test("the whole page has less than 150 KB when compressed", async () => {
  const files = await readPage();
  const numBytes = files.reduce((sum, { gzipped }) => sum + gzipped.length, 0);
  assert.ok(numBytes > 10e3 && numBytes < 150e3, `${numBytes} bytes`);
});

test("the overview has each model with its versions and tensors", async () => {
  const { models: rows, isExplicit, server: shown } = await get<ConsoleOverview>("overview");
  assert.equal(isExplicit, true);
  assert.equal(shown.name, "triton");
  assert.deepEqual(rows.map(({ name }) => name).sort(), ["broken", "pipeline", "prepare", "stalls", "words"]);
  const versionOf = (name: string) => rows.find((row) => row.name === name)?.versions[0];
  const { state, backend, instances, maxBatchSize, inputs } = versionOf("prepare") ?? {};
  assert.deepEqual([state, backend, instances, maxBatchSize], ["READY", "typescript", { count: 1, kinds: ["CPU"] }, 8]);
  assert.deepEqual(inputs, [{ name: "X", datatype: "FP32", shape: [-1, 4], isOptional: false }]);
  assert.equal(versionOf("pipeline")?.isEnsemble, true);
  assert.deepEqual([versionOf("words")?.isText, versionOf("prepare")?.isText], [true, false]);
});

test("counters of the live view follow requests", async () => {
  const countOf = ({ models: rows }: ConsoleLive) => rows.find(({ name }) => name === "prepare");
  const earlier = countOf(await get<ConsoleLive>("live"));
  await infer("prepare");
  const now = countOf(await get<ConsoleLive>("live"));
  assert.equal((now?.numSuccess ?? 0) - (earlier?.numSuccess ?? 0), 1);
  assert.ok((now?.latency?.p99Us ?? 0) >= (now?.latency?.p50Us ?? Number.POSITIVE_INFINITY));
  assert.equal(now?.batches[0]?.[0], 1);
});

test("a load that fails is explained as doctor does: file, line and fix", async () => {
  const { status } = await post("v2/repository/models/broken/load");
  assert.notEqual(status, 200);
  const { findings } = await get<ConsoleDiagnosis>("models/broken/diagnosis");
  const [finding] = findings;
  assert.equal(finding?.severity, "error");
  assert.equal(finding?.line, 2);
  assert.match(finding?.problem ?? "", /max_batch_sizes.*did you mean 'max_batch_size'/);
  assert.deepEqual((await get<ConsoleDiagnosis>("models/prepare/diagnosis")).findings, []);
});

test("a traced ensemble shows the step that stalls for 300 ms", async () => {
  await get<ConsoleTraces>("traces");
  await infer("pipeline");
  const { traces } = await get<ConsoleTraces>("traces");
  const row = traces.find(({ model }) => model === "pipeline");
  const trace = await get<ConsoleTrace>(`traces/${row?.id}`);
  const stall = trace.spans.find(({ model, kind }) => model === "stalls" && kind === "compute");
  const start = stall?.startMs ?? Number.NaN;
  assert.ok((stall?.endMs ?? 0) - start >= 299, JSON.stringify(trace.spans));
  assert.ok(trace.spans.some(({ model, kind }) => model === "prepare" && kind === "queue"));
  assert.equal((await fetch(`${server.baseUrl}/console/api/traces/999999`)).status, 404);
});

test("a stream has a time for each response", async () => {
  await get<ConsoleTraces>("traces");
  const response = await fetch(`${server.baseUrl}/v2/models/words/generate_stream`, {
    method: "POST",
    body: JSON.stringify({ text_input: "go" }),
  });
  await response.text();
  const { traces } = await get<ConsoleTraces>("traces");
  const row = traces.find(({ model }) => model === "words");
  const { responsesMs } = await get<ConsoleTrace>(`traces/${row?.id}`);
  assert.ok(responsesMs.length >= 12, JSON.stringify(responsesMs));
  assert.deepEqual(
    responsesMs,
    [...responsesMs].sort((a, b) => a - b),
  );
});

test("logs are filtered by level and text, and go on where the last answer ended", async () => {
  await post("v2/repository/models/broken/load");
  const { records, lastId } = await get<ConsoleLogs>("logs?level=error&text=BROKEN");
  assert.ok(records.length > 0);
  assert.ok(records.every(({ level, message }) => level === "error" && message.includes("broken")));
  assert.deepEqual((await get<ConsoleLogs>(`logs?after=${lastId}&level=error&text=broken`)).records, []);
  const wrong = await fetch(`${server.baseUrl}/console/api/logs?level=loud`);
  assert.equal(wrong.status, 400);
  assert.match(await wrong.text(), /level: expected info, warning, error, verbose, got 'loud'/);
});

test("a configuration is checked with line and column", async () => {
  const check = async (text: string): Promise<ConsoleConfigCheck["problems"]> => {
    const answer = await post("console/api/models/prepare/config/check", { text });
    return (JSON.parse(answer.text) as ConsoleConfigCheck).problems;
  };
  const { text } = await get<ConsoleConfig>("models/prepare/config");
  assert.deepEqual(await check(text), []);
  const [problem] = await check(text.replace("max_batch_size", "max_batch_sise"));
  assert.deepEqual([problem?.line, problem?.column], [4, 1]);
  assert.match(problem?.message ?? "", /max_batch_sise/);
  assert.match((await check('name: "other"'))[0]?.message ?? "", /directory name must equal model name/);
});

test("a configuration is tried on a copy, applied and rolled back, and its file stays", async () => {
  const file = join(models.path, "prepare", "config.pbtxt");
  const before = readFileSync(file, "utf8");
  const text = before.replace("max_batch_size: 8", "max_batch_size: 3");
  const largest = async (model: string): Promise<number | undefined> => {
    const { models: rows } = await get<ConsoleOverview>("overview");
    return rows.find(({ name }) => name === model)?.versions.find(({ state }) => state === "READY")?.maxBatchSize;
  };
  const act = (action: string): ReturnType<typeof post> =>
    post(`console/api/models/prepare/config/${action}`, { text });
  assert.deepEqual(await act("try"), { status: 200, text: '{"trial":"prepare.trial"}' });
  assert.deepEqual([await largest("prepare"), await largest("prepare.trial")], [8, 3]);
  await infer("prepare.trial");
  assert.equal((await get<ConsoleConfig>("models/prepare/config")).trial, "prepare.trial");
  assert.equal((await act("end-trial")).status, 200);
  assert.equal(await largest("prepare.trial"), undefined);

  assert.equal((await act("apply")).status, 200);
  assert.equal(await largest("prepare"), 3);
  assert.equal((await get<ConsoleConfig>("models/prepare/config")).applied, text);
  assert.equal((await act("roll-back")).status, 200);
  assert.equal(await largest("prepare"), 8);
  assert.equal(readFileSync(file, "utf8"), before);
});

test("a configuration that does not load leaves the model as it is, and no copy behind", async () => {
  const { text } = await get<ConsoleConfig>("models/prepare/config");
  const wrong = { text: text.replace('backend: "typescript"', 'backend: "nobody"') };
  for (const action of ["try", "apply"]) {
    const { status, text: error } = await post(`console/api/models/prepare/config/${action}`, wrong);
    assert.notEqual(status, 200);
    assert.match(error, /nobody/);
  }
  await infer("prepare");
  const config = await get<ConsoleConfig>("models/prepare/config");
  assert.deepEqual([config.trial, config.applied], [undefined, undefined]);
  const broken = await post("console/api/models/prepare/config/apply", { text: "max_batch_sise: 1" });
  assert.match(broken.text, /config\.pbtxt:1:1: .*max_batch_sise/);
});

test("the playground's snippet for @nereid/client runs and prints the answer", () => {
  const { TypeScript: script } = inferSnippets({ url: server.baseUrl, headers: {} }, "prepare", REQUEST);
  const flags = ["--input-type=module", "--eval", script];
  const { stdout, stderr } = spawnSync(process.execPath, flags, { cwd: import.meta.dirname, encoding: "utf8" });
  assert.match(stdout, /^Y Float32Array\(4\) \[ 1, 2, 3, 4 \]/, stderr);
});

test("pages of other sites and names that only lead here are refused", async () => {
  const overview = "/console/api/overview";
  assert.equal(await statusOf(overview, { origin: server.baseUrl }, server), 200);
  assert.equal(await statusOf(overview, { origin: "https://evil.example" }, server), 403);
});

test("every route but the page needs an API key, and shows a key its own models", async () => {
  const key = (name: string): Record<string, string> => ({ authorization: `Bearer sk-${name}` });
  assert.equal(await statusOf("/console"), 200);
  const paths = ["overview", "live", "traces", "models/prepare/diagnosis", "models/prepare/config"];
  for (const path of paths.map((each) => `/console/api/${each}`)) {
    assert.deepEqual(
      [await statusOf(path), await statusOf(path, key("all")), await statusOf(path, key("asker"))],
      [401, 200, 403],
      path,
    );
  }
  const response = await fetch(`${guarded.baseUrl}/console/api/overview`, { headers: key("narrow") });
  const { models: rows } = (await response.json()) as ConsoleOverview;
  assert.deepEqual(
    rows.map(({ name }) => name),
    ["prepare"],
  );
  assert.equal(await statusOf("/console/api/models/words/config", key("narrow")), 403);
});

test("a restricted group needs its header beside the key", async () => {
  const key = { authorization: "Bearer sk-all" };
  assert.equal(await statusOf("/console/api/logs", key), 403);
  assert.equal(await statusOf("/console/api/logs", { ...key, admin: "secret" }), 200);
});
