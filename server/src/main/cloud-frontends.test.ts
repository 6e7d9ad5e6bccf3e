import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { parseServerFlags } from "../config/flags/parse-server-flags.ts";
import type { ServerOptions } from "../config/flags/server-options.ts";
import { MetricRegistry } from "../observe/metrics.ts";
import { FakeModelServer } from "../protocol/grpc/fake-model-server.test-support.ts";
import { TestLog } from "../protocol/grpc/test-peer.test-support.ts";
import { frontendsOf, type RunningFrontends } from "./frontends.ts";

const repository = mkdtempSync(join(tmpdir(), "nereid-cloud-"));
mkdirSync(join(repository, "m", "1"), { recursive: true });
const server = new FakeModelServer();
const log = new TestLog();
let running: RunningFrontends;
let ports: { sagemaker: number; vertex: number };

function options(...flags: string[]): ServerOptions {
  const all = ["--allow-http=false", "--allow-grpc=false", "--metrics-port=0", `--model-repository=${repository}`];
  const parsed = parseServerFlags([...all, ...flags], {});
  assert.equal(parsed.kind, "options");
  return (parsed as { options: ServerOptions }).options;
}

before(async () => {
  const flags = ["--allow-sagemaker=true", "--sagemaker-port=0", "--allow-vertex-ai=true", "--vertex-ai-port=0"];
  const metrics = new MetricRegistry();
  metrics.register({ name: "nv_x", help: "x", type: "gauge", collect: () => [{ labels: {}, value: 1 }] });
  const env = { AIP_PREDICT_ROUTE: "/predict", AIP_HEALTH_ROUTE: "/health" };
  running = frontendsOf(options(...flags), server, metrics, log, { env });
  await running.listen();
  const portOf = (name: "sagemaker" | "vertex_ai"): number => running.endpoints.get(name)?.port ?? 0;
  ports = { sagemaker: portOf("sagemaker"), vertex: portOf("vertex_ai") };
});

after(async () => {
  await running.closeInference(1000);
  await running.closeMetrics();
  rmSync(repository, { recursive: true });
});

const INPUT = '{"name":"INPUT0","datatype":"INT32","shape":[1,2],"data":[1,2]}';
const INFER = `{"inputs":[${INPUT},${INPUT.replace("INPUT0", "INPUT1")}]}`;

async function ask(where: "sagemaker" | "vertex", line: string, body = "", headers: Record<string, string> = {}) {
  const [method = "", path = ""] = line.split(" ");
  const init = method === "GET" ? { method, headers } : { method, headers, body };
  const response = await fetch(`http://127.0.0.1:${ports[where]}${path}`, init);
  return { status: response.status, type: response.headers.get("content-type"), text: await response.text() };
}

/** A request with binary tensors, the length of its JSON in the content type. */
function binary(type: string): { body: string; headers: Record<string, string> } {
  const json = INFER.replaceAll('"data":[1,2]', '"parameters":{"binary_data_size":8}').replace(
    /\}$/,
    ',"parameters":{"binary_data_output":true}}',
  );
  const tensors = "\x01\0\0\0\x02\0\0\0".repeat(2);
  return {
    body: json + tensors,
    headers: { "content-type": `application/vnd.${type}.binary+json;json-header-size=${json.length}` },
  };
}

for (const [line, status, body] of [
  ["GET /ping", 200, ""],
  ["POST /ping", 400, ""],
  ["GET /v2", 400, ""],
  ["POST /invocations", 200, INFER],
  ["POST /invocations", 400, "{}"],
  ["GET /models/none", 404, ""],
  ["POST /models/none/invoke", 404, INFER],
  ["DELETE /models/none", 404, ""],
] as const) {
  test(`SageMaker: ${line} is answered with ${status}${body === "{}" ? " when it has no inputs" : ""}`, async () => {
    assert.equal((await ask("sagemaker", line, body)).status, status);
  });
}

test("each request is a line of the log under the name of its cloud", async () => {
  log.lines.length = 0;
  await ask("sagemaker", "GET /ping");
  await ask("vertex", "POST /predict", INFER);
  assert.deepEqual(log.lines, [
    "1 sagemaker_server: SageMaker request: 0 /ping",
    "1 vertex_ai_server: Vertex AI request: 2 /predict",
  ]);
});

test("SageMaker: the life of a model that it names", async () => {
  const url = join(repository, "m");
  const load = JSON.stringify({ model_name: "abc", url });
  assert.equal((await ask("sagemaker", "POST /models", load)).status, 200);
  assert.deepEqual(server.loads.at(-1)?.name, "m");
  assert.equal((await ask("sagemaker", "POST /models", load)).status, 409);
  assert.equal((await ask("sagemaker", "GET /models")).text, `{"models":[{"modelName":"abc","modelUrl":"${url}"}]}`);
  assert.equal((await ask("sagemaker", "GET /models/abc")).text, `{"modelName":"abc","modelUrl":"${url}"}`);
  assert.match((await ask("sagemaker", "POST /models/abc/invoke", INFER)).text, /unknown model: 'm'/);
  assert.equal((await ask("sagemaker", "DELETE /models/abc")).status, 200);
  assert.deepEqual(server.unloads.at(-1), { name: "m", dependents: true });
  assert.equal((await ask("sagemaker", "GET /models/abc")).status, 404);
});

for (const url of ["/proc/self", "/dev", "/sys/kernel", "/none", tmpdir(), "../../proc"]) {
  test(`SageMaker: a model at ${url} is refused`, async () => {
    const answer = await ask("sagemaker", "POST /models", JSON.stringify({ model_name: "x", url }));
    assert.equal(answer.status, 400);
    assert.match(answer.text, /cannot load from/);
  });
}

test("Vertex AI: predictions, health and nothing else", async () => {
  assert.equal((await ask("vertex", "GET /health")).status, 200);
  assert.match((await ask("vertex", "POST /predict", INFER)).text, /"model_name":"simple"/);
  assert.equal((await ask("vertex", "GET /predict")).status, 400);
  assert.equal((await ask("vertex", "POST /v2/models/simple/infer", INFER)).status, 400);
});

for (const [target, status, text] of [
  ["v2", 200, /"extensions"/],
  ["v2/health/live", 200, /^$/],
  ["v2/models/echo/ready", 200, /^$/],
  ["v2/models/simple/infer", 200, /"outputs"/],
  ["v2/repository/index", 200, /"simple"/],
  ["metrics", 200, /^nv_x 1$/m],
  ["v2/repository/models/simple/load", 403, /Forbidden/],
  ["v2/repository/models/simple/unload", 403, /Forbidden/],
  ["v2/systemsharedmemory/region/x/register", 403, /Forbidden/],
  ["v2/systemsharedmemory/unregister", 403, /Forbidden/],
  ["v2/logging", 400, /Bad Request/],
  ["v2/models/simple/generate", 400, /Bad Request/],
  ["nonsense", 400, /Bad Request/],
] as const) {
  test(`Vertex AI: a redirect to ${target} is answered with ${status}`, async () => {
    const answer = await ask("vertex", "POST /predict", target.endsWith("/infer") ? INFER : "", {
      "x-vertex-ai-triton-redirect": target,
    });
    assert.equal(answer.status, status);
    assert.match(answer.text, text);
  });
}

for (const [where, line, type] of [
  ["sagemaker", "POST /invocations", "sagemaker-triton"],
  ["vertex", "POST /predict", "vertex-ai-triton"],
] as const) {
  test(`${where}: binary tensors have the length of the JSON in the content type, both ways`, async () => {
    const { body, headers } = binary(type);
    const answer = await ask(where, line, body, headers);
    const match = new RegExp(`^application/vnd\\.${type}\\.binary\\+json;json-header-size=(\\d+)$`).exec(
      answer.type ?? "",
    );
    const json = JSON.parse(answer.text.slice(0, Number(match?.[1]))) as { model_name: string };
    assert.equal(json.model_name, "simple");
    assert.ok(answer.text.length > Number(match?.[1]));
  });
}

test("Vertex AI: the start fails without the routes", () => {
  const only = options("--allow-vertex-ai=true", "--vertex-ai-port=0");
  assert.throws(
    () => frontendsOf(only, server, new MetricRegistry(), new TestLog(), { env: {} }),
    /AIP_PREDICT_ROUTE is not set/,
  );
});
