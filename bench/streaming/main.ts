/**
 * Streams of a language model, one event a token: how many a second the server sends, what each costs it, and in which
 * stage. `npm run bench:streaming -- [--seconds=5] [--base-port=18100] [--clients=64,256,1024] [--rows=] [--name=streaming]`.
 * The model is as small as it can be, so that the engine, in a process of its own, is not what is measured.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { newRepository, putEngine, putPipeline } from "../gpu/served-repository.ts";
import { writeSynthetic } from "../gpu/write-synthetic.ts";
import { writeRawResults } from "../raw-results.ts";
import { type EventLoad, readEventStreams, readGrpcStreams } from "../serving/event-load.ts";
import { grpcMessage } from "../serving/messages.ts";
import { startProbe } from "../serving/probe.ts";
import { ownCpuTimeUs } from "../serving/process-cpu.ts";
import { circumstances, figure, table } from "../serving/report.ts";
import { type BenchServer, startNereid } from "../serving/servers.ts";
import { hottest, STAGE_NAMES, stagesOf } from "./stages.ts";

const { values: flags } = parseArgs({
  options: {
    seconds: { type: "string", default: "5" },
    "base-port": { type: "string", default: "18100" },
    clients: { type: "string", default: "64,256,1024" },
    rows: { type: "string", default: "" },
    hottest: { type: "string", default: "0" },
    name: { type: "string", default: "" },
  },
});
const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const RESULTS = fileURLToPath(new URL("../results/", import.meta.url));
const WARM_UP_MS = 3000;
const MAX_CLIENTS = 1024;
const NUM_CONNECTIONS = 16;
const PROMPT_TOKENS = 16;
const OUTPUT_TOKENS = 400;
/** Single letters are among the first tokens. */
const TEXT = "a b c d";
const US_PER_MS = 1000;

/** One narrow layer, and the first tokens of the tokenizer's vocabulary. No token ends an answer. */
const MODEL: Readonly<Record<string, unknown>> = {
  architectures: ["LlamaForCausalLM"],
  model_type: "llama",
  vocab_size: 512,
  hidden_size: 32,
  intermediate_size: 32,
  num_hidden_layers: 1,
  num_attention_heads: 1,
  num_key_value_heads: 1,
  head_dim: 32,
  hidden_act: "silu",
  max_position_embeddings: 2048,
  rms_norm_eps: 1e-5,
  rope_theta: 10000,
  tie_word_embeddings: true,
  torch_dtype: "bfloat16",
};

interface Way {
  readonly name: string;
  start(server: BenchServer, numClients: number): EventLoad;
}

const WAYS: readonly Way[] = [
  { name: "tensorrt_llm, HTTP", start: ({ httpPort }, count) => readEventStreams(httpPort, fill(count, tokensBody)) },
  { name: "ensemble, HTTP", start: ({ httpPort }, count) => readEventStreams(httpPort, fill(count, textBody)) },
  { name: "tensorrt_llm, gRPC", start: ({ grpcPort }, count) => startGrpc(grpcPort, fill(count, tokensMessage)) },
  { name: "ensemble, gRPC", start: ({ grpcPort }, count) => startGrpc(grpcPort, fill(count, textMessage)) },
];

function fill<T>(count: number, make: (client: number) => T): T[] {
  return Array.from({ length: count }, (_, client) => make(client));
}

function startGrpc(port: number, messages: readonly Uint8Array[]): EventLoad {
  return readGrpcStreams(port, messages, NUM_CONNECTIONS, false);
}

/** No two clients share a prompt. */
function promptOf(client: number): number[] {
  return Array.from({ length: PROMPT_TOKENS }, (_, i) => 100 + ((client * 37 + i * 11) % 400));
}

function tokensBody(client: number): { model: string; body: string } {
  const ids = promptOf(client);
  const body = { input_ids: ids, input_lengths: ids.length, request_output_len: OUTPUT_TOKENS, streaming: true };
  return { model: "tensorrt_llm", body: JSON.stringify(body) };
}

function textBody(): { model: string; body: string } {
  const body = { text_input: TEXT, max_tokens: OUTPUT_TOKENS, stream: true };
  return { model: "ensemble", body: JSON.stringify(body) };
}

function tokensMessage(client: number): Uint8Array {
  const ids = Int32Array.from(promptOf(client));
  return grpcMessage("tensorrt_llm", [
    { name: "input_ids", datatype: "INT32", shape: [1, ids.length], values: ids },
    { name: "input_lengths", datatype: "INT32", shape: [1, 1], values: Int32Array.of(ids.length) },
    { name: "request_output_len", datatype: "INT32", shape: [1, 1], values: Int32Array.of(OUTPUT_TOKENS) },
    { name: "streaming", datatype: "BOOL", shape: [1, 1], values: Uint8Array.of(1) },
  ]);
}

function textMessage(): Uint8Array {
  const text = Buffer.from(TEXT);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(text.length);
  return grpcMessage("ensemble", [
    { name: "text_input", datatype: "BYTES", shape: [1, 1], values: Buffer.concat([length, text]) },
    { name: "max_tokens", datatype: "INT32", shape: [1, 1], values: Int32Array.of(OUTPUT_TOKENS) },
    { name: "stream", datatype: "BOOL", shape: [1, 1], values: Uint8Array.of(1) },
  ]);
}

async function makeRepository(folder: string): Promise<string> {
  const modelDir = join(folder, "model");
  await writeSynthetic(modelDir, MODEL);
  const examples = join(ROOT, "examples");
  const repository = join(folder, "repository");
  const put = newRepository(repository);
  const parameters = `max_num_sequences=${MAX_CLIENTS},max_tokens_in_paged_kv_cache=${MAX_CLIENTS * 512},enable_kv_cache_reuse=false`;
  const plan = { examples, modelDir, gpus: "", parameters };
  putEngine(put, plan);
  putPipeline(put, { ...plan, modelDir: join(examples, "nereid-tiny/language_model") });
  return repository;
}

interface Row {
  readonly name: string;
  readonly clients: number;
  readonly eventsPerSecond: number;
  /** CPU time of the server's process and its threads, without the engine's. */
  readonly cpuUs: number;
  readonly stages: ReadonlyMap<string, number>;
  readonly probeMs: number;
}

/** A server for each row: its profile is written when it ends. */
async function measure(way: Way, clients: number, repository: string, folder: string): Promise<Row> {
  const profiles = join(folder, "profiles");
  const nodeFlags = ["--cpu-prof", `--cpu-prof-dir=${profiles}`, "--cpu-prof-interval=500"];
  const server = await startNereid(ROOT, [repository], Number(flags["base-port"]), nodeFlags);
  const { pid } = server;
  const load = way.start(server, clients);
  const probe = startProbe(server.httpPort);
  await sleep(WARM_UP_MS);
  load.count = 0;
  probe.tally.reset();
  const [startCpuUs, startUs] = [ownCpuTimeUs(pid), monotonicUs()];
  await sleep(Number(flags.seconds) * 1000);
  const [count, cpuUs, endUs] = [load.count, ownCpuTimeUs(pid) - startCpuUs, monotonicUs()];
  const probeMs = probe.tally.percentileUs(0.99) / US_PER_MS;
  load.stop();
  probe.stop();
  await server.stop();
  const sums = stagesOf(profiles, pid, startUs, endUs);
  if (Number(flags.hottest) > 0) showHottest(profiles, pid, startUs, endUs, count);
  const sampledUs = [...sums.values()].reduce((sum, us) => sum + us, 0);
  const stages = new Map([...sums].map(([stage, us]) => [stage, ((us / sampledUs) * cpuUs) / count]));
  const eventsPerSecond = (count * 1e6) / (endUs - startUs);
  return { name: way.name, clients, eventsPerSecond, cpuUs: cpuUs / count, stages, probeMs };
}

function showHottest(profiles: string, pid: number, fromUs: number, toUs: number, count: number): void {
  for (const [name, us] of hottest(profiles, pid, fromUs, toUs).slice(0, Number(flags.hottest))) {
    console.log(`  ${(us / count).toFixed(2)} us  ${name}`);
  }
}

function monotonicUs(): number {
  return Number(process.hrtime.bigint() / 1000n);
}

const folder = mkdtempSync(join(tmpdir(), "nereid-streaming-"));
const rows: Row[] = [];
try {
  const repository = await makeRepository(folder);
  for (const clients of flags.clients.split(",").map(Number)) {
    for (const way of WAYS.filter(({ name }) => name.includes(flags.rows))) {
      const row = await measure(way, clients, repository, folder);
      rows.push(row);
      console.log(cellsOf(row).join("  "));
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
if (flags.name !== "") save();

function cellsOf({ name, clients, eventsPerSecond, cpuUs, stages, probeMs }: Row): string[] {
  const byStage = STAGE_NAMES.map((stage) => figure(stages.get(stage) ?? 0));
  return [name, String(clients), figure(eventsPerSecond), figure(cpuUs), ...byStage, figure(probeMs)];
}

function save(): void {
  mkdirSync(RESULTS, { recursive: true });
  const about = circumstances(`npm run bench:streaming -- ${process.argv.slice(2).join(" ")}`);
  const raw = rows.map((row) => ({ ...row, stages: Object.fromEntries(row.stages) }));
  writeRawResults(flags.name, { ...about, rows: raw });
  const head = ["row", "clients", "events/s", "CPU us an event", ...STAGE_NAMES, "probe p99 ms"];
  const text = [
    "# Language model: the cost of a streamed event",
    "",
    `Commit ${about.commit}, ${about.date}, Node ${about.node}, ${about.machine}.`,
    `Command: \`${about.command}\`.`,
    "",
    "Each event is one token. CPU is that of the server's process, the profiler included; the engine and the clients have",
    "processes of their own on the same cores. Stages are own times from the profile of the server's main thread, in us an event.",
    "The probe asks for health up to a hundred times a second.",
    "",
    table(head, rows.map(cellsOf)),
    "",
  ].join("\n");
  writeFileSync(`${RESULTS}${flags.name}.md`, text);
}
