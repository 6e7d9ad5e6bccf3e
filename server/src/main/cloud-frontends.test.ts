import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { parseServerFlags } from "../config/flags/parse-server-flags.ts";
import type { ServerOptions } from "../config/flags/server-options.ts";
import { ServerError } from "../core/server-error.ts";
import { MetricRegistry } from "../observe/metrics.ts";
import { FakeModelServer } from "../protocol/grpc/fake-model-server.test-support.ts";
import { TestLog } from "../protocol/grpc/test-peer.test-support.ts";
import { frontendsOf, type RunningFrontends } from "./frontends.ts";

const repository = mkdtempSync(join(tmpdir(), "nereid-cloud-"));
mkdirSync(join(repository, "m", "1"), { recursive: true });
/** In the place of /opt/ml/models. */
const sagemakerModels = mkdtempSync(join(tmpdir(), "nereid-opt-ml-"));
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
  running = frontendsOf(options(...flags), server, metrics, log, { env, sagemakerModels });
  await running.listen();
  const portOf = (name: "sagemaker" | "vertex_ai"): number => running.endpoints.get(name)?.port ?? 0;
  ports = { sagemaker: portOf("sagemaker"), vertex: portOf("vertex_ai") };
});

after(async () => {
  await running.closeInference(1000);
  await running.closeMetrics();
  rmSync(repository, { recursive: true });
  rmSync(sagemakerModels, { recursive: true });
});

const INPUT = '{"name":"INPUT0","datatype":"INT32","shape":[1,2],"data":[1,2]}';
const INFER = `{"inputs":[${INPUT},${INPUT.replace("INPUT0", "INPUT1")}]}`;

async function ask(where: "sagemaker" | "vertex", line: string, body = "", headers: Record<string, string> = {}) {
  const [method = "", path = ""] = line.split(" ");
  const init = method === "GET" ? { method, headers } : { method, headers, body };
  const response = await fetch(`http://127.0.0.1:${ports[where]}${path}`, init);
  return {
    status: response.status,
    type: response.headers.get("content-type"),
    encoding: response.headers.get("content-encoding"),
    headerLength: response.headers.get("inference-header-content-length"),
    text: await response.text(),
  };
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

/** Files of a model that SageMaker has put down; its URL. */
function putDown(hash: string, files: Readonly<Record<string, string>>): string {
  const url = join(sagemakerModels, hash, "model");
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(url, path)), { recursive: true });
    writeFileSync(join(url, path), text);
  }
  return url;
}

const ENSEMBLE = 'platform: "ensemble"';
/** Behind the root: the repository that is registered, and the folder in it whose model gets SageMaker's name. */
const LAYOUTS: readonly (readonly [string, Readonly<Record<string, string>>, string, string])[] = [
  ["a model", { "config.pbtxt": 'name: "other"', "1/model.py": "" }, "", "model"],
  ["a model without a configuration", { "1/model.onnx": "", "2/model.onnx": "" }, "", "model"],
  ["a folder with a model", { "resnet/config.pbtxt": "", "resnet/1/model.onnx": "" }, "/model", "resnet"],
  ["an ensemble before its models", { "all/config.pbtxt": ENSEMBLE, "b/config.pbtxt": "" }, "/model", "all"],
  ["an ensemble behind its models", { "a/config.pbtxt": "", "z/config.pbtxt": ENSEMBLE }, "/model", "z"],
];
for (const [number, [what, files, repositoryOf, folder]] of LAYOUTS.entries()) {
  test(`SageMaker: ${what} becomes a repository with one mapped name while it is loaded`, async () => {
    const hash = `0a${number}`;
    const body = JSON.stringify({ model_name: hash, url: putDown(hash, files) });
    const target = { "X-Amzn-SageMaker-Target-Model": `target-${number}.tar.gz` };
    assert.equal((await ask("sagemaker", "POST /models", body, target)).status, 200);
    const path = `${sagemakerModels}/${hash}${repositoryOf}`;
    assert.deepEqual(server.registered, [`${path} ${folder} target-${number}.tar.gz`]);
    assert.equal(server.loads.at(-1)?.name, `target-${number}.tar.gz`);
    assert.equal((await ask("sagemaker", "POST /models", body, target)).status, 409);
    const other = JSON.stringify({ model_name: "other", url: putDown(hash, {}) });
    assert.equal((await ask("sagemaker", "POST /models", other)).status, 409);
    assert.equal(
      (await ask("sagemaker", `GET /models/${hash}`)).text,
      JSON.stringify({ modelName: hash, modelUrl: path }),
    );
    assert.equal((await ask("sagemaker", `DELETE /models/${hash}`)).status, 200);
    assert.deepEqual(server.registered, []);
    assert.equal((await ask("sagemaker", `DELETE /models/${hash}`)).status, 404);
  });
}

test("SageMaker: a load that fails leaves no repository behind", async (t) => {
  t.mock.method(server, "load", async () => {
    throw new ServerError("internal", "failed to load: CUDA_OUT_OF_MEMORY");
  });
  const url = putDown("big", { "config.pbtxt": "", "1/model.py": "" });
  const answer = await ask("sagemaker", "POST /models", JSON.stringify({ model_name: "big", url }));
  assert.equal(answer.status, 507);
  assert.deepEqual(server.registered, []);
  assert.equal((await ask("sagemaker", "GET /models/big")).status, 404);
});

test("SageMaker: a folder that is no model of its own is refused", async () => {
  const empty = join(sagemakerModels, "empty", "model");
  mkdirSync(empty, { recursive: true });
  const urls = [empty, join(empty, ".."), sagemakerModels, `${empty}/../../..`];
  for (const url of urls) {
    const answer = await ask("sagemaker", "POST /models", JSON.stringify({ model_name: "x", url }));
    assert.equal(answer.status, 400, url);
    assert.match(answer.text, /cannot load from/);
  }
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

test("SageMaker: binary tensors have the length of the JSON in the content type, both ways", async () => {
  const { body, headers } = binary("sagemaker-triton");
  const answer = await ask("sagemaker", "POST /invocations", body, headers);
  const match = /^application\/vnd\.sagemaker-triton\.binary\+json;json-header-size=(\d+)$/.exec(answer.type ?? "");
  expectBinary(answer.text, Number(match?.[1]));
  assert.equal(answer.headerLength, null);
});

for (const redirect of [{}, { "x-vertex-ai-triton-redirect": "v2/models/simple/infer" }]) {
  test(`Vertex AI: binary tensors come with the length in a header, uncompressed (${JSON.stringify(redirect)})`, async () => {
    const { body, headers } = binary("vertex-ai-triton");
    const answer = await ask("vertex", "POST /predict", body, { ...headers, ...redirect, "accept-encoding": "gzip" });
    assert.equal(answer.type, "application/octet-stream");
    assert.equal(answer.encoding, null);
    expectBinary(answer.text, Number(answer.headerLength));
  });
}

function expectBinary(text: string, headerLength: number): void {
  const json = JSON.parse(text.slice(0, headerLength)) as { model_name: string };
  assert.equal(json.model_name, "simple");
  assert.ok(text.length > headerLength);
}

const BAD_SIZES: readonly (readonly [string, RegExp])[] = [
  ["prefix/TYPE;json-header-size=3", /expect MIME type for binary data starts with '[^']+', got: prefix/],
  ["TYPE;json-header-size=x3", /Unable to parse inference header size, got: x3/],
  ["TYPE;json-header-size=", /Unable to parse inference header size, got: /],
  ["TYPE;json-header-size=-4", /inference header size should be in range \(0, \d+\), got: -4/],
  ["TYPE;json-header-size=99999", /inference header size should be in range \(0, \d+\), got: 99999/],
  ["TYPE;json-header-size=99999999999", /Unable to parse inference header size, value is out of range, got: 9{11}/],
];
for (const [where, line, type] of [
  ["sagemaker", "POST /invocations", "application/vnd.sagemaker-triton.binary+json"],
  ["vertex", "POST /predict", "application/vnd.vertex-ai-triton.binary+json"],
] as const) {
  for (const [given, text] of BAD_SIZES) {
    test(`${where}: the content type ${given} is refused`, async () => {
      const answer = await ask(where, line, INFER, { "content-type": given.replace("TYPE", type) });
      assert.equal(answer.status, 400);
      assert.match(answer.text, text);
    });
  }
}

for (const [env, text] of [
  [{}, /API_PREDICT_ROUTE is not defined for Vertex AI endpoint/],
  [{ AIP_PREDICT_ROUTE: "/p" }, /AIP_HEALTH_ROUTE is not defined for Vertex AI endpoint/],
] as const) {
  test(`Vertex AI: the start fails without the routes (${JSON.stringify(env)})`, () => {
    const only = options("--allow-vertex-ai=true", "--vertex-ai-port=0");
    assert.throws(() => frontendsOf(only, server, new MetricRegistry(), new TestLog(), { env }), text);
  });
}

const ROUTES = { AIP_PREDICT_ROUTE: "/predict", AIP_HEALTH_ROUTE: "/health" };
const READY = { version: "1", state: "READY" } as const;
const FAILED = "failed to start Vertex AI service: Invalid argument - Expect the";
for (const [flag, names, message] of [
  ["", [], `${FAILED} model repository contains only a single model if default model is not specified`],
  ["", ["a", "b"], `${FAILED} model repository contains only a single model if default model is not specified`],
  ["c", ["a", "b"], `${FAILED} default model 'c' is loaded`],
  ["b", ["a", "b"], ""],
  ["", ["a"], ""],
] as const) {
  const outcome = message === "" ? "succeeds" : "fails";
  test(`Vertex AI: the start ${outcome} with default model '${flag}' when [${names}] are ready`, async () => {
    const own = new FakeModelServer();
    own.index = () => names.map((name) => ({ name, ...READY }));
    const flags = ["--allow-vertex-ai=true", "--vertex-ai-port=0", "--allow-metrics=false"];
    const parts = options(...flags, `--vertex-ai-default-model=${flag}`);
    const front = frontendsOf(parts, own, new MetricRegistry(), new TestLog(), { env: ROUTES });
    if (message === "") await front.listen();
    else await assert.rejects(front.listen(), (error: Error) => error.message.startsWith(message));
    await front.closeInference(0);
  });
}
