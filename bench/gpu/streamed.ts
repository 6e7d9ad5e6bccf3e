/**
 * The first requests after a start, and streams at the engine's rate, on a machine with GPUs:
 * `node streamed.mjs --program=<nereid.cjs> --examples=examples --checkpoint=/dev/shm/llama --parameters=weight_type=fp8,...`.
 * It starts the installed server twice, first with an empty cache. A checkpoint that is not there is written with the shapes
 * of Llama-3.1-8B.
 */
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type EventLoad, readEventStreams, readGrpcStreams } from "../serving/event-load.ts";
import { grpcMessage } from "../serving/messages.ts";
import { startProbe } from "../serving/probe.ts";
import { ownCpuTimeUs } from "../serving/process-cpu.ts";
import { newRepository, putEngine, putPipeline } from "./served-repository.ts";
import { type Server, startServer } from "./served-server.ts";
import { LLAMA_8B } from "./synthetic-model.ts";
import { writeSynthetic } from "./write-synthetic.ts";

const { values: flags } = parseArgs({
  options: {
    program: { type: "string", default: "" },
    examples: { type: "string", default: "examples" },
    checkpoint: { type: "string", default: "/dev/shm/llama" },
    work: { type: "string", default: "/tmp/streamed" },
    gpus: { type: "string", default: "0" },
    parameters: { type: "string", default: "weight_type=fp8,kv_cache_type=fp8,max_num_sequences=1024" },
    clients: { type: "string", default: "64,256,1024" },
    seconds: { type: "string", default: "6" },
    out: { type: "string", default: "" },
    port: { type: "string", default: "18400" },
  },
});
const PORT = Number(flags.port);
const READY_TIMEOUT_MS = 200_000;
const SETTLE_MS = 4000;
const PROMPT = 128;
const OUTPUT = 256;
const CONNECTIONS = 32;

const results: Record<string, unknown>[] = [];

function note(result: Record<string, unknown>): void {
  console.log(JSON.stringify(result));
  results.push(result);
}

function promptOf(client: number): number[] {
  return Array.from({ length: PROMPT }, (_, i) => 500 + ((client * 7919 + i * 31) % 5000));
}

function tokensBody(client: number): { model: string; body: string } {
  const body = { input_ids: promptOf(client), input_lengths: PROMPT, request_output_len: OUTPUT, streaming: true };
  return { model: "tensorrt_llm", body: JSON.stringify({ ...body, end_id: -1 }) };
}

function textBody(client: number): { model: string; body: string } {
  const text = `the ${client} `.repeat(PROMPT / 4);
  return {
    model: "ensemble",
    body: JSON.stringify({ text_input: text, max_tokens: OUTPUT, stream: true, end_id: -1 }),
  };
}

function tokensMessage(client: number): Uint8Array {
  const int = (name: string, ...values: number[]) => ({
    name,
    datatype: "INT32" as const,
    shape: [1, values.length],
    values: Int32Array.from(values),
  });
  return grpcMessage("tensorrt_llm", [
    int("input_ids", ...promptOf(client)),
    int("input_lengths", PROMPT),
    int("request_output_len", OUTPUT),
    int("end_id", -1),
    { name: "streaming", datatype: "BOOL", shape: [1, 1], values: Uint8Array.of(1) },
  ]);
}

/** Milliseconds to the first token of each of so many requests that are sent at once, and tokens a second of all. */
async function burst(
  count: number,
  from: number,
): Promise<{ firstMs: number; worstMs: number; tokensPerSecond: number }> {
  const startMs = performance.now();
  const firsts = await Promise.all(
    Array.from({ length: count }, async (_, i) => {
      const { model, body } = tokensBody(from + i);
      const path = `/v2/models/${model}/generate_stream`;
      const response = await fetch(`http://127.0.0.1:${PORT}${path}`, { method: "POST", body });
      let firstMs = 0;
      for await (const _chunk of response.body ?? []) firstMs ||= performance.now() - startMs;
      return firstMs;
    }),
  );
  firsts.sort((a, b) => a - b);
  const tokensPerSecond = (count * OUTPUT * 1000) / (performance.now() - startMs);
  return { firstMs: firsts[count >> 1] ?? 0, worstMs: firsts.at(-1) ?? 0, tokensPerSecond };
}

function fill<T>(count: number, make: (client: number) => T): T[] {
  return Array.from({ length: count }, (_, client) => make(client));
}

const WAYS: Readonly<Record<string, (count: number) => EventLoad>> = {
  "tensorrt_llm, HTTP": (count) => readEventStreams(PORT, fill(count, tokensBody)),
  "ensemble, HTTP": (count) => readEventStreams(PORT, fill(count, textBody)),
  "tensorrt_llm, gRPC": (count) => readGrpcStreams(PORT + 1, fill(count, tokensMessage), CONNECTIONS, false),
};

async function stream(name: string, load: EventLoad, clients: number, pid: number): Promise<void> {
  const probe = startProbe(PORT);
  await sleep(SETTLE_MS);
  load.count = 0;
  probe.tally.reset();
  const [startMs, startCpuUs] = [performance.now(), ownCpuTimeUs(pid)];
  await sleep(Number(flags.seconds) * 1000);
  const [ms, cpuUs, count] = [performance.now() - startMs, ownCpuTimeUs(pid) - startCpuUs, load.count];
  const tokensPerSecond = Math.round((count * 1000) / ms);
  const probeMs = probe.tally.percentileUs(0.99) / 1000;
  const cpu = { cpuUsPerEvent: cpuUs / count, percentOfCore: cpuUs / ms / 10 };
  note({ row: "streamed", way: name, clients, tokensPerSecond, ...cpu, probeP99Ms: probeMs });
  load.stop();
  probe.stop();
  await sleep(2000);
}

async function start(): Promise<Server> {
  const startMs = performance.now();
  const repository = join(flags.work, "repository");
  const env = { XDG_CACHE_HOME: join(flags.work, "cache") };
  const server = await startServer({
    program: flags.program,
    repository,
    port: PORT,
    readyTimeoutMs: READY_TIMEOUT_MS,
    env,
  });
  const warmUp = server.lines.filter((line) => line.includes("warm-up"));
  note({ row: "start", readySeconds: (performance.now() - startMs) / 1000, warmUp });
  for (const [row, count] of [
    ["first", 1],
    ["first 64", 64],
    ["steady 1", 1],
    ["steady 64", 64],
    ["steady 64", 64],
  ] as const) {
    note({ row, ...(await burst(count, results.length * 100)) });
  }
  return server;
}

if (!existsSync(join(flags.checkpoint, "config.json"))) await writeSynthetic(flags.checkpoint, LLAMA_8B);
rmSync(flags.work, { recursive: true, force: true });
const put = newRepository(join(flags.work, "repository"));
const plan = { ...flags, modelDir: resolve(flags.checkpoint) };
putEngine(put, plan);
putPipeline(put, { ...plan, modelDir: resolve(flags.examples, "nereid-tiny/language_model") });
try {
  await (await start()).stop();
  const server = await start();
  for (const clients of flags.clients.split(",").map(Number)) {
    for (const [name, begin] of Object.entries(WAYS))
      await stream(name, begin(clients), clients, server.child.pid ?? 0);
  }
  await server.stop();
} catch (error) {
  console.log("FAILED:", error);
  process.exitCode = 1;
}
if (flags.out !== "") {
  mkdirSync(flags.out, { recursive: true });
  writeFileSync(join(flags.out, "streamed.json"), JSON.stringify({ flags, results }, undefined, 1));
}
