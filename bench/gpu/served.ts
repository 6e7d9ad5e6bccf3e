/**
 * The whole server on a machine with GPUs: `node served.mjs tiny|fault|lost-rank|speed --program=<nereid.cjs> ...`. It starts the
 * installed server over repositories made from the examples, asks over HTTP and gRPC, and prints what came.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { GrpcStreams, type StreamedInput } from "./served-grpc.ts";
import { newRepository, putEngine, putPipeline } from "./served-repository.ts";
import { type Server, startServer } from "./served-server.ts";

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    program: { type: "string", default: "" },
    examples: { type: "string", default: "examples" },
    checkpoint: { type: "string", default: "" },
    work: { type: "string", default: "/tmp/served" },
    /** Lists of GPUs as instance groups have them. */
    gpus: { type: "string", default: "0" },
    /** Further parameters of the engine model: name=value,... */
    parameters: { type: "string", default: "" },
    clients: { type: "string", default: "1,64" },
    /** The GPU that breaks. */
    fault: { type: "string", default: "0" },
    out: { type: "string", default: "" },
    port: { type: "string", default: "18400" },
  },
});

const HTTP = Number(flags.port);
const READY_TIMEOUT_MS = 90_000;
const TOKENIZER = resolve(flags.examples, "nereid-tiny/language_model");
const MARKER = join(flags.work, "fault");

interface GoldenText {
  readonly prompt: string;
  readonly output_ids: readonly number[];
  readonly text: string;
}

const WHERE = `
import numpy
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.where = args["model_instance_kind"] + " " + args["model_instance_device_id"]

    def execute(self, requests):
        text = numpy.array([self.where], dtype=numpy.object_)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("where", text)]) for _ in requests]
`;

/** The example model, or a checkpoint of it. */
function tinyModel(): string {
  return flags.checkpoint === "" ? TOKENIZER : resolve(flags.checkpoint);
}

/** The pipeline of the examples over an engine on GPUs, and a Python model that says where it runs. */
function writeRepository(modelDir: string, withPipeline: boolean): string {
  const root = join(flags.work, "repository");
  const put = newRepository(root);
  const plan = { ...flags, modelDir };
  putEngine(put, plan);
  if (!withPipeline) return root;
  putPipeline(put, { ...plan, modelDir: TOKENIZER });
  put("where/1/model.py", WHERE);
  const inputs = "input [ { name: 'x' data_type: TYPE_FP32 dims: [ 1 ] } ]";
  const outputs = "output [ { name: 'where' data_type: TYPE_STRING dims: [ 1 ] } ]";
  put("where/config.pbtxt", `backend: "python"\n${inputs}\n${outputs}\ninstance_group [ { count: 1 } ]\n`);
  return root;
}

function start(repository: string, env: Readonly<Record<string, string>> = {}): Promise<Server> {
  return startServer({ program: flags.program, repository, port: HTTP, readyTimeoutMs: READY_TIMEOUT_MS, env });
}

async function post(path: string, body: object): Promise<Response> {
  return fetch(`http://127.0.0.1:${HTTP}${path}`, { method: "POST", body: JSON.stringify(body) });
}

async function generate(prompt: string, maxTokens: number, more: object = {}): Promise<string> {
  const response = await post("/v2/models/ensemble/generate", { text_input: prompt, max_tokens: maxTokens, ...more });
  const { text_output, error } = (await response.json()) as { text_output?: string; error?: string };
  if (text_output === undefined) throw new Error(error ?? `status ${response.status}`);
  return text_output;
}

async function generateStream(prompt: string, maxTokens: number): Promise<string> {
  const body = { text_input: prompt, max_tokens: maxTokens, stream: true };
  const text = await (await post("/v2/models/ensemble/generate_stream", body)).text();
  const events = text.split("\n").filter((line) => line.startsWith("data: "));
  return events.map((line) => (JSON.parse(line.slice(6)) as { text_output: string }).text_output).join("");
}

function golden(): readonly GoldenText[] {
  return JSON.parse(readFileSync(join(flags.examples, "nereid-tiny/golden_text.json"), "utf8")) as GoldenText[];
}

const INT32 = (name: string, ...values: readonly number[]): StreamedInput => ({
  name,
  datatype: "INT32",
  shape: [1, values.length],
  data: Buffer.from(Int32Array.from(values).buffer),
});

function textInput(prompt: string, maxTokens: number): readonly StreamedInput[] {
  const text = Buffer.from(prompt);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(text.length);
  return [
    { name: "text_input", datatype: "BYTES", shape: [1, 1], data: Buffer.concat([length, text]) },
    INT32("max_tokens", maxTokens),
    { name: "stream", datatype: "BOOL", shape: [1, 1], data: Buffer.of(1) },
  ];
}

async function tiny(): Promise<void> {
  const server = await start(writeRepository(tinyModel(), true));
  const grpc = new GrpcStreams(HTTP + 1);
  try {
    const texts = golden();
    const ways: readonly (readonly [string, (one: GoldenText) => Promise<string>])[] = [
      ["generate", ({ prompt, output_ids }) => generate(prompt, output_ids.length)],
      ["generate_stream", ({ prompt, output_ids }) => generateStream(prompt, output_ids.length)],
      [
        "gRPC stream",
        async ({ prompt, output_ids }) => {
          const { texts: parts } = await grpc.infer("ensemble", textInput(prompt, output_ids.length), "text_output");
          return parts.join("");
        },
      ],
    ];
    for (const [name, ask] of ways) {
      const answers = await Promise.all(texts.map(ask));
      const same = answers.filter((answer, i) => answer.trim() === texts[i]?.text.trim()).length;
      console.log(`${name}: ${same} of ${texts.length} texts as recorded`);
      if (same < texts.length) console.log(JSON.stringify(answers.map((text) => text.slice(0, 60))));
    }
    console.log(`Python instances: ${[...(await whereabouts())].sort().join(", ")}`);
    const page = await (await fetch(`http://127.0.0.1:${HTTP + 2}/metrics`)).text();
    for (const line of page.split("\n").filter((text) => /^nv_(gpu|energy)/.test(text))) console.log(line);
    const shown = /GPU|CUDA|NVRTC|cuBLAS|NCCL|NVML|rank \d|libuv/;
    for (const line of server.lines.filter((text) => shown.test(text)).slice(0, 40)) console.log(`  ${line}`);
  } finally {
    grpc.close();
    await server.stop();
  }
}

async function whereabouts(): Promise<ReadonlySet<string>> {
  const body = { inputs: [{ name: "x", datatype: "FP32", shape: [1], data: [1] }] };
  const places = Array.from({ length: 40 }, async () => {
    const answer = (await (await post("/v2/models/where/infer", body)).json()) as {
      outputs?: readonly { readonly data: readonly string[] }[];
      error?: string;
    };
    return answer.outputs?.[0]?.data[0] ?? answer.error ?? "nothing";
  });
  return new Set(await Promise.all(places));
}

/** A GPU breaks while requests run: alone, beside another or, with tensor_parallel, as one of a group. */
async function fault(): Promise<void> {
  mkdirSync(flags.work, { recursive: true });
  rmSync(MARKER, { force: true });
  const repository = writeRepository(tinyModel(), true);
  const server = await start(repository, {
    NEREID_TEST_GPU_FAULT: `${flags.fault}:30:${MARKER}`,
    // bundle.ts puts it beside this program.
    NODE_OPTIONS: `--import=${new URL("fault/preload.mjs", import.meta.url).href}`,
  });
  try {
    await askBeforeAndAfter(server, () => Promise.resolve());
    console.log(`planted on GPU ${flags.fault}: ${existsSync(MARKER)}`);
  } finally {
    await server.stop();
  }
}

/** A rank in a process of its own is killed while requests run; what started it starts another. */
async function lostRank(): Promise<void> {
  const repository = writeRepository(tinyModel(), true);
  const group = { WORLD_SIZE: "2", MASTER_ADDR: "127.0.0.1", MASTER_PORT: String(HTTP + 9) };
  const env = { ...process.env, ...group, RANK: "1", LOCAL_RANK: "1" };
  const argv = [flags.program, "serve", `--model-repository=${repository}`];
  const other = spawn(process.execPath, argv, { env, stdio: ["ignore", "inherit", "inherit"] });
  try {
    const server = await start(repository, { ...group, RANK: "0", LOCAL_RANK: "0" });
    try {
      await askBeforeAndAfter(server, async () => {
        await sleep(300);
        const [victim] = childrenOf(other.pid ?? -1);
        if (victim === undefined) throw new Error("rank 1 has no process that follows");
        process.kill(victim, "SIGKILL");
        console.log(`killed rank 1, process ${victim}`);
      });
    } finally {
      await server.stop();
    }
  } finally {
    other.kill("SIGTERM");
  }
}

const NUM_ASKED = 24;
/** Some hundred steps, whatever the model says. */
const LONG = 1200;

async function askBeforeAndAfter(server: Server, breakIt: () => Promise<void>): Promise<void> {
  const [text] = golden();
  if (text === undefined) throw new Error("no recorded text");
  const ask = (): Promise<string> => generate(text.prompt, LONG, { end_id: -1 });
  const asked = Promise.allSettled(Array.from({ length: NUM_ASKED }, ask));
  await breakIt();
  const first = await asked;
  const startMs = performance.now();
  const errors = first.flatMap((result) => (result.status === "rejected" ? [String(result.reason)] : []));
  console.log(`${NUM_ASKED - errors.length} of ${NUM_ASKED} answered, the rest failed:`);
  for (const error of new Set(errors)) console.log(`  ${errors.filter((one) => one === error).length} x ${error}`);
  const second = await Promise.allSettled(
    golden().map(({ prompt, output_ids }) => generate(prompt, output_ids.length)),
  );
  const same = second.filter((one, i) => one.status === "fulfilled" && one.value.trim() === golden()[i]?.text.trim());
  const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
  console.log(`asked at once again, ${same.length} of ${second.length} texts came as recorded, ${seconds} s later`);
  for (const line of server.lines.filter((one) => /engine_host/.test(one)).slice(-10)) console.log(`  ${line}`);
}

function childrenOf(parent: number): readonly number[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.filter((pid) => parentOf(pid) === parent).map(Number);
}

/** Undefined for a process that has just ended. */
function parentOf(pid: string): number | undefined {
  try {
    return Number(
      readFileSync(`/proc/${pid}/stat`, "utf8")
        .replace(/^.*\) \S+ /s, "")
        .split(" ")[0],
    );
  } catch {
    return undefined;
  }
}

const INPUT = 128;
const OUTPUT = 128;

async function speed(): Promise<void> {
  const server = await start(writeRepository(flags.checkpoint, false));
  const grpc = new GrpcStreams(HTTP + 1);
  const results: unknown[] = [];
  try {
    let turn = 0;
    const ask = (): Promise<{ readonly firstMs: number; readonly numMessages: number }> => {
      const seed = ++turn;
      const tokens = Array.from({ length: INPUT }, (_, i) => (seed * 7919 + i * 31 + ((seed * i) % 13)) % 128_000);
      const sizes = [INT32("input_lengths", INPUT), INT32("request_output_len", OUTPUT)];
      const streaming: StreamedInput = { name: "streaming", datatype: "BOOL", shape: [1, 1], data: Buffer.of(1) };
      return grpc.infer("tensorrt_llm", [INT32("input_ids", ...tokens), ...sizes, streaming], undefined);
    };
    for (const clients of flags.clients.split(",").map(Number)) {
      for (let round = 0; round < 3; round++) {
        const startMs = performance.now();
        const answers = await Promise.all(Array.from({ length: clients }, ask));
        const seconds = (performance.now() - startMs) / 1000;
        const first = answers.map(({ firstMs }) => firstMs).sort((a, b) => a - b);
        const numMessages = answers.reduce((sum, answer) => sum + answer.numMessages, 0);
        const tokensPerSecond = (clients * OUTPUT) / seconds;
        const result = { clients, round, tokensPerSecond, firstTokenMs: first[first.length >> 1], numMessages };
        console.log(JSON.stringify(result));
        results.push(result);
      }
    }
    const name = `served-${flags.parameters.replaceAll(/[^a-z0-9]+/gi, "-")}.json`;
    if (flags.out !== "") writeFileSync(join(flags.out, name), JSON.stringify({ flags, results }, undefined, 1));
  } finally {
    grpc.close();
    await server.stop();
  }
}

const COMMANDS: Readonly<Record<string, () => Promise<void>>> = { tiny, fault, "lost-rank": lostRank, speed };

for (const command of positionals) {
  console.log(`== served ${command}`);
  try {
    await COMMANDS[command]?.();
  } catch (error) {
    console.log(`FAILED ${command}:`, error);
    process.exitCode = 1;
  }
}
