/** `nereid serve NAME` as a process of its own, with a hub that holds the example model. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { cliCommand, runCli } from "@nereid/server/cli/cli.test-support";
import { ggufBytes, STRING } from "@nereid/server/formats/gguf/gguf-writer.test-support";
import { FakeHub } from "@nereid/server/hub/hub-server.test-support";
import { freePorts } from "../../../../tests/support/server-process.ts";
import { splitFlags } from "./serve-model.ts";

const TINY = fileURLToPath(new URL("../../../../examples/nereid-tiny/language_model/", import.meta.url));
const NAME = "org/tiny";

let root = "";
let hub: FakeHub;
let env: Record<string, string>;
let child: ChildProcess;
let text = "";
let baseUrl = "";
/** Flags of the command itself, not of the server. */
let own: readonly string[] = [];

before(async () => {
  root = mkdtempSync(join(tmpdir(), "nereid-serve-"));
  hub = await FakeHub.start();
  for (const name of readdirSync(TINY)) hub.add(name, readFileSync(join(TINY, name)), name.endsWith(".safetensors"));
  env = { HF_ENDPOINT: hub.endpoint, HF_HOME: join(root, "hf"), XDG_CACHE_HOME: join(root, "cache") };
  const ports = await freePorts();
  baseUrl = `http://127.0.0.1:${ports.http}`;
  const flags = [`--http-port=${ports.http}`, "--grpc-port", String(ports.grpc), `--metrics-port=${ports.metrics}`];
  const config = join(root, "options.yaml");
  own = ["--max-batch-size=4", "--config", config];
  writeFileSync(config, "cuda_graph_config: {}\nkv_cache_config: { enable_block_reuse: false }\nmax_seq_len: 900\n");
  const argv = ["serve", ...flags, NAME, ...own, "--http-address=127.0.0.1"];
  child = spawn(process.execPath, cliCommand(argv), {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
  }
  while (!text.includes("is ready at")) {
    assert.equal(child.exitCode, null, text);
    await sleep(20);
  }
});

after(async () => {
  child?.kill("SIGKILL");
  await hub?.[Symbol.asyncDispose]();
  rmSync(root, { recursive: true, force: true });
});

async function post(path: string, body: unknown): Promise<{ readonly status: number; readonly json: unknown }> {
  const headers = { "anthropic-version": "2023-06-01" };
  const response = await fetch(`${baseUrl}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  return { status: response.status, json: await response.json() };
}

/** Requests that the server's engine has answered. */
async function answered(): Promise<number> {
  const stats: unknown = await (await fetch(`${baseUrl}/v2/models/tensorrt_llm/stats`)).json();
  const [model]: unknown[] = Reflect.get(Object(stats), "model_stats");
  return Number(Reflect.get(Object(model), "inference_count"));
}

const messages = [{ role: "user", content: "Hello" }];

for (const [api, path, body] of [
  ["OpenAI's", "/v1/chat/completions", { model: NAME, messages, max_tokens: 4 }],
  ["Anthropic's", "/v1/messages", { model: NAME, messages, max_tokens: 4 }],
  ["Ollama's", "/api/chat", { model: NAME, messages, stream: false, options: { num_predict: 4 } }],
] as const) {
  test(`nereid serve NAME answers ${api} API under that name`, async () => {
    const { status, json } = await post(path, body);
    assert.equal(status, 200, JSON.stringify(json));
    assert.equal(Reflect.get(Object(json), "model"), NAME);
  });
}

test("nereid serve NAME answers the V2 protocol of the ensemble", async () => {
  const { status, json } = await post("/v2/models/ensemble/generate", { text_input: "Hello", max_tokens: 4 });
  assert.equal(status, 200, JSON.stringify(json));
  assert.equal(typeof Reflect.get(Object(json), "text_output"), "string");
});

test("nereid serve NAME lists the name alone", async () => {
  const { data } = (await (await fetch(`${baseUrl}/v1/models`)).json()) as {
    data: { id: string; max_model_len: number }[];
  };
  assert.deepEqual(
    data.map(({ id, max_model_len: context }) => [id, context]),
    [[NAME, 900]],
  );
});

test("nereid serve NAME says what it found, what it needs and how to ask", () => {
  assert.match(text, /^Found {3}org\/tiny from http:\/\/127\.0\.0\.1:\d+\/org\/tiny at 0123456$/m);
  assert.match(text, /^Model {3}LlamaForCausalLM, 11\.8 M parameters in bf16 \(22\.5 MiB\), context 2048 tokens$/m);
  assert.match(text, /^Memory {2}weights 45\.0 MiB, .* of .* free$/m);
  assert.match(text, /^Run {5}on .*, weights widened to f32$/m);
  assert.match(text, /org\/tiny is ready at http:\/\/127\.0\.0\.1:\d+ \(grpc .*, metrics .*\)\n {2}OpenAI {5}curl /);
  assert.doesNotMatch(text, /^I\d{4} /m);
});

test("nereid run NAME asks the server that serves it", async () => {
  const before = await answered();
  const run = await runCli(["run", NAME, "Hello", "--max_tokens=4"], env);
  assert.deepEqual([run.code, run.stderr], [0, ""]);
  assert.match(run.stdout, /\w/);
  assert.equal(await answered(), before + 1);
});

test("nereid ps lists the server, and nereid rm keeps its files", async () => {
  const [ps, rm] = await Promise.all([runCli(["ps"], env), runCli(["rm", NAME, "--yes"], env)]);
  assert.match(
    ps.stdout,
    new RegExp(`^NAME +PID +URL +STARTED\\norg/tiny +${child.pid} +http://127.0.0.1:\\d+ +.* ago\\n$`),
  );
  assert.match(rm.stderr, /org\/tiny is served by process \d+\nnereid stop org\/tiny/);
});

test("nereid serve takes a file of LLM() arguments, as trtllm-serve does", async () => {
  assert.match(text, /^Note {4}.*options\.yaml: without effect on this engine: cuda_graph_config$/m);
  const config = await (await fetch(`${baseUrl}/v2/models/tensorrt_llm/config`)).json();
  const { parameters } = config as { parameters: Record<string, { string_value: string }> };
  assert.equal(parameters.enable_kv_cache_reuse?.string_value, "false");
  assert.equal(parameters.max_model_len?.string_value, "900");
  const absent = await runCli(["serve", "--config", join(root, "none.yaml"), NAME], env);
  assert.match(absent.stderr, /Failed to parse engine config '.*none\.yaml': ENOENT/);
  const unnamed = await runCli(["serve", "--config", join(root, "options.yaml")], env);
  assert.match(unnamed.stderr, /<name> is missing: which model to serve/);
});

test("nereid stop ends the server, which needs no network the second time", async () => {
  const ended = once(child, "exit");
  const wrong = await runCli(["stop", "org/other"], env);
  assert.match(wrong.stderr, /No running server serves 'org\/other' \(running: org\/tiny\)/);
  const stop = await runCli(["stop", NAME], env);
  assert.deepEqual([stop.code, stop.stdout], [0, `Stopped org/tiny (process ${child.pid})\n`]);
  assert.deepEqual(await ended, [0, null]);
  assert.match((await runCli(["ps"], env)).stdout, /No server is running/);
  const before = hub.requests.length;
  const port = await freePorts();
  const flags = [
    `--http-port=${port.http}`,
    "--allow-grpc=false",
    "--allow-metrics=false",
    "--model-control-mode=wrong",
  ];
  const run = await runCli(["serve", NAME, "--offline", ...own, ...flags], env);
  assert.equal(run.code, 1);
  assert.match(run.stderr, /^Found {3}org\/tiny in the cache /m);
  assert.equal(hub.requests.length, before);
  assert.equal(readdirSync(join(root, "cache/nereid/models/repositories")).length, 1);
});

test("nereid serve refuses what it cannot find or read, and says how to go on", async () => {
  writeFileSync(join(root, "odd.gguf"), "no model");
  const fields = [["general.architecture", STRING, "mamba"]] as const;
  writeFileSync(join(root, "other.gguf"), ggufBytes({ fields, tensors: [] }));
  const names = [["org/none"], [join(root, "odd.gguf")], [join(root, "other.gguf"), "--engine", "nereid"]];
  const [unknown, broken, other] = await Promise.all(names.map((name) => runCli(["serve", ...name], env)));
  assert.ok(unknown !== undefined && broken !== undefined && other !== undefined);
  assert.match(
    other.stderr,
    /other\.gguf: engine nereid does not serve GGUF files of the architecture 'mamba', but llama, .*\nLeave --engine/,
  );
  assert.equal(unknown.code, 1);
  assert.match(unknown.stderr, /nereid serve: org\/none is neither here nor at http.*\nCheck the name/);
  assert.equal(broken.code, 1);
  assert.match(broken.stderr, /nereid serve: .*odd\.gguf/);
  assert.doesNotMatch(unknown.stderr + broken.stderr, / at .*\.(ts|js):/);
  assert.equal(existsSync(join(root, "cache/nereid/models/repositories/odd.gguf")), false);
});

test("nereid run and show take a GGUF file of an architecture that only libllama knows", async () => {
  const model = fileURLToPath(new URL("../../../../tests/llama-cpp/models/mamba.gguf", import.meta.url));
  const show = await runCli(["show", model], env);
  assert.match(
    show.stdout,
    /^architecture +mamba\nparameters +20,512\nweights +f32 \(84\.0 KiB\)\ncontext +256 tokens$/m,
  );
  const run = await runCli(["run", model, "hello", "--max-tokens=5", "--temperature=0"], env);
  assert.deepEqual([run.code, [...run.stdout.trimEnd()].length], [0, 5], run.stderr);
});

test("splitFlags() keeps values with their flags", () => {
  const argv = ["--http-port", "1", "name", "--weight_type", "q8_0", "--offline", "--log-info=true", "-q"];
  assert.deepEqual(splitFlags(argv), {
    own: ["name", "--weight_type", "q8_0", "--offline", "-q"],
    others: ["--http-port", "1", "--log-info=true"],
  });
});
