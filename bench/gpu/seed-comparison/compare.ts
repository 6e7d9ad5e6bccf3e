/**
 * One model served twice by one server, by the engine and by the Python backend with transformers, and asked by one client
 * over gRPC streams: `node seed-comparison.mjs --program=<nereid.cjs> --model=<folder> --python=<folder of the models in
 * Python> --out=<result.json>`. Both answer greedily with a fixed number of tokens, so that the work is the same.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { GrpcStreams, type StreamedAnswer, type StreamedInput } from "../served-grpc.ts";
import { newRepository, putEngine, putPipeline } from "../served-repository.ts";
import { startServer } from "../served-server.ts";
import { type Agreement, agreementOf, type Row, rowOf } from "./results.ts";

const { values: flags } = parseArgs({
  options: {
    program: { type: "string", default: "" },
    model: { type: "string", default: "" },
    python: { type: "string", default: "bench/gpu/seed-comparison" },
    examples: { type: "string", default: "examples" },
    work: { type: "string", default: "/tmp/seed-comparison" },
    /** As instance groups have them, "" for the CPU. */
    gpus: { type: "string", default: "0" },
    parameters: { type: "string", default: "weight_type=bf16,max_num_tokens=8192,max_tokens_in_paged_kv_cache=32768" },
    input: { type: "string", default: "128" },
    output: { type: "string", default: "128" },
    /** system:clients x requests of each client, in this order. */
    loads: {
      type: "string",
      default:
        "nereid:1x8,nereid:4x8,nereid:16x8,nereid:64x4,batched:1x1,batched:4x1,batched:16x1,batched:64x2," +
        "streamed:1x1,streamed:4x1,streamed:16x1,streamed:64x1,one-by-one:1x1,one-by-one:4x1",
    },
    warm: { type: "string", default: "nereid:64x1,batched:64x1,one-by-one:1x1" },
    prompts: { type: "string", default: "16" },
    /** No load begins later than this. */
    seconds: { type: "string", default: "300" },
    out: { type: "string", default: "" },
    port: { type: "string", default: "18430" },
  },
});

const PORT = Number(flags.port);
const INPUT = Number(flags.input);
const OUTPUT = Number(flags.output);
const READY_TIMEOUT_MS = 240_000;
const MAX_BATCH = 64;

/** Systems to measure: a model of the repository, and whether it streams token by token. */
const SYSTEMS: Readonly<Record<string, { readonly model: string; readonly isStreamed: boolean }>> = {
  nereid: { model: "ensemble", isStreamed: true },
  batched: { model: "python_batched", isStreamed: false },
  streamed: { model: "python_batched", isStreamed: true },
  "one-by-one": { model: "python_one_by_one", isStreamed: false },
};

const model = resolve(flags.model);
const words = wordsOf(join(model, "tokenizer.json"));
let turn = 0;

/** Words with a space in front, each a token. */
function wordsOf(path: string): readonly string[] {
  const tokenizer = JSON.parse(readFileSync(path, "utf8")) as {
    readonly model: { readonly vocab: Readonly<Record<string, number>> };
  };
  return Object.keys(tokenizer.model.vocab).filter((token) => /^\u0120[a-z]{4,}$/.test(token));
}

/** A new prompt with the requested number of tokens. */
function newPrompt(): string {
  const seed = ++turn;
  const at = (i: number): number => (seed * 7919 + i * 31 + ((seed * i) % 13) * 17) % words.length;
  return Array.from({ length: INPUT }, (_, i) => ` ${words[at(i)]?.slice(1) ?? ""}`).join("");
}

function writeRepository(): string {
  const root = join(flags.work, "repository");
  const put = newRepository(root);
  const plan = { ...flags, modelDir: model };
  putEngine(put, plan);
  putPipeline(put, plan, MAX_BATCH);
  const common = `backend: "python"
parameters { key: "huggingface_model" value { string_value: "${model}" } }
input [ { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] }, { name: "max_tokens" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] } ]
instance_group [ { count: 1, ${flags.gpus === "" ? "kind: KIND_CPU" : `kind: KIND_GPU, gpus: [ ${flags.gpus} ]`} } ]
`;
  put("python_one_by_one/1/model.py", readFileSync(join(flags.python, "one-by-one.py"), "utf8"));
  put("python_one_by_one/config.pbtxt", `${common}max_batch_size: 1\n`);
  put("python_batched/1/model.py", readFileSync(join(flags.python, "batched.py"), "utf8"));
  put(
    "python_batched/config.pbtxt",
    `${common}max_batch_size: ${MAX_BATCH}
input [ { name: "stream" data_type: TYPE_BOOL dims: [ 1 ] } ]
model_transaction_policy { decoupled: true }
dynamic_batching { max_queue_delay_microseconds: 20000 }
`,
  );
  return root;
}

function inputsOf(system: string, prompt: string): readonly StreamedInput[] {
  const text = Buffer.from(prompt);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(text.length);
  const int = (name: string, value: number): StreamedInput => ({
    name,
    datatype: "INT32",
    shape: [1, 1],
    data: Buffer.from(Int32Array.of(value).buffer),
  });
  const isStreamed = SYSTEMS[system]?.isStreamed === true;
  const inputs: StreamedInput[] = [
    { name: "text_input", datatype: "BYTES", shape: [1, 1], data: Buffer.concat([length, text]) },
    int("max_tokens", OUTPUT),
  ];
  if (system !== "one-by-one") {
    inputs.push({ name: "stream", datatype: "BOOL", shape: [1, 1], data: Buffer.of(isStreamed ? 1 : 0) });
  }
  if (system === "nereid") inputs.push(int("end_id", -1));
  return inputs;
}

function ask(grpc: GrpcStreams, system: string, prompt: string): Promise<StreamedAnswer> {
  return grpc.infer(SYSTEMS[system]?.model ?? "", inputsOf(system, prompt), "text_output");
}

/** Each client asks again as soon as it has its answer. */
async function measure(grpc: GrpcStreams, load: string): Promise<Row> {
  const [system = "", clients = 0, requests = 0] = load
    .split(/[:x]/)
    .map((part, i) => (i === 0 ? part : Number(part))) as [string, number, number];
  const answers: { latencyMs: number; firstMs: number; numMessages: number }[] = [];
  const startMs = performance.now();
  const client = async (): Promise<void> => {
    for (let i = 0; i < requests; i++) {
      const sentMs = performance.now();
      const { firstMs, numMessages } = await ask(grpc, system, newPrompt());
      answers.push({ latencyMs: performance.now() - sentMs, firstMs, numMessages });
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  const seconds = (performance.now() - startMs) / 1000;
  return rowOf(
    { system, clients, seconds, outputTokens: OUTPUT, isStreamed: SYSTEMS[system]?.isStreamed === true },
    answers,
  );
}

/** The same prompts through both. */
async function compareTexts(grpc: GrpcStreams): Promise<Agreement> {
  const prompts = Array.from({ length: Number(flags.prompts) }, newPrompt);
  const streamed = await Promise.all(prompts.map((prompt) => ask(grpc, "nereid", prompt)));
  const whole = await Promise.all(prompts.map((prompt) => ask(grpc, "batched", prompt)));
  return agreementOf(
    streamed.map(({ texts }) => texts),
    whole.map(({ texts }) => texts.join("")),
  );
}

async function main(): Promise<void> {
  const startMs = performance.now();
  const repository = writeRepository();
  const server = await startServer({ ...flags, repository, port: PORT, readyTimeoutMs: READY_TIMEOUT_MS });
  const grpc = new GrpcStreams(PORT + 1);
  const rows: Row[] = [];
  try {
    const agreement = await compareTexts(grpc);
    console.log(JSON.stringify(agreement));
    // First calls compile, record and allocate: these answers count for nothing.
    for (const load of flags.warm.split(",")) await measure(grpc, load);
    for (const load of flags.loads.split(",")) {
      if (performance.now() - startMs > 1000 * Number(flags.seconds)) {
        console.log(`no time left for ${load}`);
        continue;
      }
      const row = await measure(grpc, load);
      console.log(JSON.stringify(row));
      rows.push(row);
      const result = {
        model: basename(model),
        input: INPUT,
        output: OUTPUT,
        parameters: flags.parameters,
        agreement,
        rows,
      };
      if (flags.out !== "") writeFileSync(flags.out, `${JSON.stringify(result, undefined, 2)}\n`);
    }
  } catch (error) {
    console.log(`FAILED:`, error);
    console.log(server.lines.slice(-40).join("\n"));
    process.exitCode = 1;
  } finally {
    grpc.close();
    await server.stop();
  }
}

await main();
