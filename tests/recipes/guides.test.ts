/**
 * The commands of guides for TensorRT-LLM and Triton, word for word but for paths, ports and the lines that
 * docs/commands/shims.md names, by the programs of `nereid shims`, on one small random model.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { FakeHub } from "../../server/src/hub/hub-server.test-support.ts";
import { longTestsReason } from "../support/long-tests.ts";
import { clientVenv } from "../support/python-checks.ts";
import { freePorts, type Ports } from "../support/server-process.ts";
import { blockWith, guideBlocks, guideLine, guidesReason, rewriteForShims, withPaths } from "./guide-commands.ts";
import { writeRandomModel } from "./random-model.ts";

const TIMEOUT_MS = 120_000;
const READY_TIMEOUT_MS = 240_000;
const NEREID = fileURLToPath(new URL("../../server/bin/nereid.cjs", import.meta.url));
const options = {
  timeout: TIMEOUT_MS,
  skip: longTestsReason ?? guidesReason ?? (clientVenv.python === undefined && clientVenv.reason),
};

let root = "";
let shims = "";
let hub: FakeHub | undefined;
let ports: Ports = { http: 0, grpc: 0, metrics: 0 };

before(async () => {
  root = mkdtempSync(join(tmpdir(), "nereid-guides-"));
  shims = join(root, "shims");
  writeRandomModel(join(root, "model"), "llama");
  hub = await FakeHub.start();
  for (const name of readdirSync(join(root, "model")))
    hub.add(name, readFileSync(join(root, "model", name)), name.endsWith(".safetensors"));
  ports = await freePorts();
  await shell(`'${process.execPath}' '${NEREID}' shims '${shims}'`, root);
  // Servers of a test listen on loopback and on ports of their own; the original programs take the same flags.
  const flags = ["http", "grpc", "metrics"].map((name) => `--${name}-address=127.0.0.1`).join(" ");
  const real = join(shims, "tritonserver");
  writeFileSync(real, readFileSync(real, "utf8").replace('"$@"', `${portFlags()} ${flags} "$@"`));
});
after(async () => {
  await hub?.[Symbol.asyncDispose]();
  rmSync(root, { recursive: true, force: true });
});

function portFlags(): string {
  return `--http-port=${ports.http} --grpc-port=${ports.grpc} --metrics-port=${ports.metrics}`;
}

/** @throws AssertionError with the output when the script fails */
async function shell(
  script: string,
  cwd: string,
  repoId = "org/tiny",
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  if (hub !== undefined) hub.repoId = repoId;
  const env = {
    ...process.env,
    PATH: `${shims}:${process.env.PATH}`,
    PYTHONPATH: join(shims, "python"),
    HF_ENDPOINT: hub?.endpoint ?? "",
    HF_HOME: join(root, "hf"),
  };
  const child = spawn("bash", ["-euo", "pipefail", "-c", script], { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const [code] = (await once(child, "close")) as [number | null];
  assert.equal(code, 0, `${script}\nended with ${code}:\n${stdout}${stderr}`);
  return { stdout, stderr };
}

/** Starts what the script starts, as in a second terminal; disposal ends it. */
async function serve(script: string, cwd: string): Promise<AsyncDisposable> {
  const env = { ...process.env, PATH: `${shims}:${process.env.PATH}` };
  const child = spawn("bash", ["-euc", script], { cwd, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  const { pid } = child;
  if (pid === undefined) throw new Error(`cannot start bash in ${cwd}`);
  let log = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (log += String(chunk)));
  const server = { [Symbol.asyncDispose]: () => stop(pid) };
  for (const deadline = Date.now() + READY_TIMEOUT_MS; Date.now() < deadline; await sleep(50)) {
    if (await answers("ready")) return server;
    if ((child.exitCode ?? 0) !== 0) break;
  }
  await server[Symbol.asyncDispose]();
  assert.fail(`${script}\nis not ready:\n${log}`);
}

/** A launcher may be gone while the server that it started goes on, in the same process group. */
async function stop(group: number): Promise<void> {
  try {
    process.kill(-group, "SIGTERM");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
  while (await answers("live")) await sleep(50);
}

function answers(state: "live" | "ready"): Promise<boolean> {
  return fetch(`http://127.0.0.1:${ports.http}/v2/health/${state}`).then(
    ({ ok }) => ok,
    () => false,
  );
}

test("a script that downloads a model by huggingface_hub", options, async () => {
  const script = blockWith(guideBlocks("local_dir_use_symlinks=False"), "snapshot_download").replaceAll(/^ {4}/gm, "");
  writeFileSync(join(root, "download.py"), withPaths(script, { "/raid/models": root }));
  await shell("python3 download.py", root, "mistralai/Mistral-7B-Instruct-v0.3");
  const folder = join(root, "hgf_models", "Mistral-7B-Instruct-v0.3");
  for (const name of readdirSync(join(root, "model"))) assert.equal(existsSync(join(folder, name)), true, name);
});

test("download, quantize, build, run and serve Llama with 4-bit weights", options, async () => {
  const data = join(root, "triton");
  const paths = { "/data": data, "<your token>": "hf_test", "localhost:8000": `127.0.0.1:${ports.http}` };
  const blocks = guideBlocks("huggingface-cli download").map((block) =>
    withPaths(rewriteForShims(block, shims), paths),
  );
  const run = (text: string, cwd = data) => shell(blockWith(blocks, text), cwd);
  await shell(blockWith(blocks, "huggingface-cli"), root, "meta-llama/Meta-Llama-3.1-8B-Instruct");
  await run("/TensorRT-LLM .");
  assert.match((await run("python3 quantize.py")).stderr, /^Warning: --batch_size has no effect here$/m);
  await run("trtllm-build");
  const { stdout } = await run("python3 ../run.py", join(data, "TensorRT-LLM/examples/quantization"));
  assert.match(stdout, /^Input \[Text 0\]: "How do I count to nine in Hindi\?"\nOutput \[Text 0 Beam 0\]: "/m);
  await run("/tensorrtllm_backend .");
  await run("rm -r repo/llama3/tensorrt_llm_bls");
  await run("fill_template.py");
  await using _ = await serve(blockWith(blocks, "tritonserver --model-repository"), data);
  const { model_name, text_output }: Record<string, unknown> = JSON.parse((await run("curl -X")).stdout);
  assert.deepEqual([model_name, typeof text_output], ["ensemble", "string"]);
});

test("fill the templates, and serve five models by name", options, async () => {
  const paths = {
    "/trtback": join(shims, "tensorrtllm_backend"),
    "/models/mistral-nemo": join(root, "model"),
    "/engines/mistral-nemo-engine_v01": join(root, "model"),
    "localhost:5555": `127.0.0.1:${ports.http}`,
    "5555": `${ports.http}`,
    "5556": `${ports.grpc}`,
    "5557": `${ports.metrics}`,
  };
  const blocks = guideBlocks("--load-model=tensorrt_llm_bls").map((block) => withPaths(block, paths));
  await shell(blockWith(blocks, "fill_template.py"), join(shims, "tensorrtllm_backend"));
  await using _ = await serve(blockWith(blocks, "tritonserver --model-repository"), root);
  for (const model of ["ensemble", "tensorrt_llm_bls"]) {
    const { stdout } = await shell(blockWith(blocks, `${model}/generate`), root);
    const { model_name, text_output }: Record<string, unknown> = JSON.parse(stdout);
    assert.deepEqual([model_name, typeof text_output], [model, "string"]);
  }
});

test("fill templates by sed, serve by launch_triton_server.py, and ask by tritonclient", options, async () => {
  const scratch = join(root, "scratch");
  const repository = `${scratch}/triton_model_repo/llama_7b/python`;
  await shell(`mkdir scratch; '${process.execPath}' '${NEREID}' shims untouched`, root);
  const paths = {
    "/scratch/tensorrtllm_backend": join(root, "untouched", "tensorrtllm_backend"),
    "/scratch": scratch,
    "/workspace/meta/llama_models": join(root, "model"),
    "/workspace/trt-engines/llama_7b/fp16/1-gpu": join(root, "model"),
  };
  const blocks = guideBlocks("triton_model_repo/llama_7b").map((block) => withPaths(block, paths));
  const commands = blocks.filter((block) => /^(?:mkdir|cp|sed) /.test(block) && !block.includes("llama-python"));
  assert.equal(commands.length, 5);
  for (const block of commands) await shell(block, root);
  const line = /python3 \S*launch_triton_server\.py --model_repo /.exec(
    guideLine(/launch_triton_server\.py --model_repo /),
  );
  const launch = `${line?.[0].replace("/opt/scripts", shims)}${repository}`;
  const own = ["http", "grpc", "metrics"].map((name) => `--${name}-address=127.0.0.1`).join(" ");
  const numbers = `--http_port ${ports.http} --grpc_port ${ports.grpc} --metrics_port ${ports.metrics}`;
  await using _ = await serve(`${launch} ${numbers} -- ${own}`, root);
  writeFileSync(join(root, "client.py"), blockWith(blocks, "async_stream_infer"));
  const flags = `-u 127.0.0.1:${ports.grpc} -p 'What is machine learning?' -o 8 -m ensemble`;
  assert.match((await shell(`'${clientVenv.python}' client.py ${flags}`, root)).stdout, /^\[b['"]/m);
});
