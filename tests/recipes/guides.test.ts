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
import { GuideBook, guidesReason, rewriteForShims, withPaths } from "./guide-commands.ts";
import { writeRandomMiniLm } from "./random-encoder.ts";
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
let book: GuideBook;
let ports: Ports = { http: 0, grpc: 0, metrics: 0 };

before(async () => {
  if (options.skip !== false) return;
  book = new GuideBook();
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
  const script = book.guide("local_dir_use_symlinks=False").block("snapshot_download").replaceAll(/^ {4}/gm, "");
  writeFileSync(join(root, "download.py"), withPaths(script, { "/raid/models": root }));
  await shell("python3 download.py", root, "mistralai/Mistral-7B-Instruct-v0.3");
  const folder = join(root, "hgf_models", "Mistral-7B-Instruct-v0.3");
  for (const name of readdirSync(join(root, "model"))) assert.equal(existsSync(join(folder, name)), true, name);
});

test("download, quantize, build, run and serve Llama with 4-bit weights", options, async () => {
  const data = join(root, "triton");
  const paths = { "/data": data, "<your token>": "hf_test", "localhost:8000": `127.0.0.1:${ports.http}` };
  const guide = book.guide("huggingface-cli download", (block) => withPaths(rewriteForShims(block, shims), paths));
  const run = (text: string, cwd = data) => shell(guide.block(text), cwd);
  await shell(guide.block("huggingface-cli"), root, "meta-llama/Meta-Llama-3.1-8B-Instruct");
  await run("TensorRT-LLM.git");
  assert.match((await run("python3 quantize.py")).stderr, /^Warning: --batch_size has no effect here$/m);
  await run("trtllm-build");
  const { stdout } = await run("python3 ../run.py", join(data, "TensorRT-LLM/examples/quantization"));
  assert.match(stdout, /^Input \[Text 0\]: "How do I count to nine in Hindi\?"\nOutput \[Text 0 Beam 0\]: "/m);
  await run("tensorrtllm_backend.git");
  await run("rm -r repo/llama3/tensorrt_llm_bls");
  await run("fill_template.py");
  await using _ = await serve(guide.block("tritonserver --model-repository"), data);
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
  const guide = book.guide("--load-model=tensorrt_llm_bls", (block) => withPaths(block, paths));
  await shell(guide.block("fill_template.py"), join(shims, "tensorrtllm_backend"));
  await using _ = await serve(guide.block("tritonserver --model-repository"), root);
  for (const model of ["ensemble", "tensorrt_llm_bls"]) {
    const { stdout } = await shell(guide.block(`${model}/generate`), root);
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
    "/workspace/triton_model_repo": `${scratch}/triton_model_repo`,
    "/workspace/meta/llama_models": join(root, "model"),
    "/workspace/trt-engines/llama_7b/fp16/1-gpu": join(root, "model"),
  };
  const guide = book.guide("triton_model_repo/llama_7b", (block) => withPaths(rewriteForShims(block, shims), paths));
  const commands = guide.blocks(/^(?:mkdir|cp|sed|cat<<'EOF'>) ?\S/);
  assert.equal(commands.length, 8);
  for (const block of commands) await shell(block, root);
  // The second model is one of torch and transformers: tests/python/user-notes.test.ts serves it where they are installed.
  assert.match(readFileSync(join(repository, "llama-python/1/model.py"), "utf8"), /transformers\.pipeline\(/);
  rmSync(join(repository, "llama-python"), { recursive: true });
  const line = book
    .guide("launch_triton_server.py --model_repo <")
    .words(/python3 \S*launch_triton_server\.py --model_repo /);
  const launch = `${line.replace("/opt/scripts", shims)}${repository}`;
  const own = ["http", "grpc", "metrics"].map((name) => `--${name}-address=127.0.0.1`).join(" ");
  const numbers = `--http_port ${ports.http} --grpc_port ${ports.grpc} --metrics_port ${ports.metrics}`;
  writeFileSync(join(root, "client.py"), guide.block("async_stream_infer"));
  const flags = `-u 127.0.0.1:${ports.grpc} -p 'What is machine learning?' -o 8 -m ensemble`;
  const ask = async (): Promise<void> =>
    assert.match((await shell(`'${clientVenv.python}' client.py ${flags}`, root)).stdout, /^\[b['"]/m);
  for (const command of [guide.block("tritonserver --model-repository"), `${launch} ${numbers} -- ${own}`]) {
    await using _ = await serve(command, root);
    await ask();
  }
});

test("convert, build and serve GPT-2 by the programs that a guide names", options, async () => {
  const home = join(root, "gpt");
  const guide = book.guide("we use the output from step 5");
  const [convert, build, fill] = [/convert_checkpoint\.py/, /trtllm-build/, /fill_template\.py/].map((each) =>
    guide.words(each),
  );
  writeRandomModel(join(home, "input-engine"), "gpt2");
  await shell(`cp -r '${shims}/TensorRT-LLM' '${shims}/tensorrtllm_backend' .`, home);
  const examples = "TensorRT-LLM/examples/models/core/gpt";
  await shell(`python3 ${examples}/${convert} --model_dir input-engine --dtype float16 --output_dir checkpoint`, home);
  await shell(`${build} --checkpoint_dir checkpoint --output_dir output-engine`, home);
  const models = join(home, "tensorrtllm_backend/all_models/inflight_batcher_llm");
  await shell(`cp output-engine/* ${models}/tensorrt_llm/1/; rm -r ${models}/tensorrt_llm_bls`, home);
  const values = {
    preprocessing: `tokenizer_dir:${home}/input-engine,triton_max_batch_size:4,preprocessing_instance_count:1`,
    postprocessing: `tokenizer_dir:${home}/input-engine,triton_max_batch_size:4,postprocessing_instance_count:1`,
    ensemble: "triton_max_batch_size:4",
    tensorrt_llm: `triton_backend:tensorrtllm,triton_max_batch_size:4,decoupled_mode:False,engine_dir:${models}/tensorrt_llm/1`,
  };
  for (const [model, settings] of Object.entries(values))
    await shell(
      `python3 tools/${fill} -i ${models}/${model}/config.pbtxt '${settings}'`,
      join(home, "tensorrtllm_backend"),
    );
  await using _ = await serve(`tritonserver --model-repository=${models}`, home);
  const body = '{"text_input": "What is machine learning?", "max_tokens": 8, "bad_words": "", "stop_words": ""}';
  const url = `http://127.0.0.1:${ports.http}/v2/models/ensemble/generate`;
  const { model_name, text_output }: Record<string, unknown> = JSON.parse(
    (await shell(`curl -sS --fail -X POST ${url} -d '${body}'`, home)).stdout,
  );
  assert.deepEqual([model_name, typeof text_output], ["ensemble", "string"]);
});

test("build engines of an encoder by trtexec, which a guide names", options, async () => {
  const program = book.guide("clip_vision_encoder_quantized_int8").words(/trtexec/);
  writeRandomMiniLm(join(root, "text-encoder"));
  await shell(`'${process.execPath}' '${NEREID}' onnx export --model text-encoder --output onnx`, root);
  const shapes = ["input_ids", "attention_mask", "token_type_ids"].map((name) => `${name}:1x4`).join(",");
  for (const flag of ["--fp16", "--int8"]) {
    const command = `${program} --onnx=onnx/model.onnx --saveEngine=encoder.plan ${flag} --shapes=${shapes} --duration=1`;
    assert.match((await shell(command, root)).stdout, /^Wrote encoder\.plan: /m, flag);
  }
});

test("each shell command of the guides ran above, or is a difference that the page of the shims names", options, () => {
  assert.deepEqual([book.numGuides, book.numCommands() > 50], [5, true]);
  assert.deepEqual(book.untaken(), []);
});
