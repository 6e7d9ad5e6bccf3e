/**
 * Tokens per second and time to the first token at 1 and 8 clients that stream, over HTTP and gRPC, beside the same engine
 * without a server. `npm run bench:llm -- [--seconds=5] [--rounds=3] [--base-port=18100] [--name=llm]`
 */
import { mkdirSync, writeFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { writeRawResults } from "../raw-results.ts";
import { cpuTimeUs } from "../serving/process-cpu.ts";
import { circumstances, figure, table } from "../serving/report.ts";
import { startNereid } from "../serving/servers.ts";
import { EngineGenerator, modelDirOf } from "./engine-generator.ts";
import { GrpcGenerator } from "./grpc-client.ts";
import { generateOverHttp } from "./http-client.ts";
import { promptOf } from "./prompts.ts";
import type { Generation } from "./stream.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const RESULTS = fileURLToPath(new URL("../results/", import.meta.url));
const CLIENTS = [1, 8];

const { values: flags } = parseArgs({
  options: {
    seconds: { type: "string", default: "5" },
    rounds: { type: "string", default: "3" },
    "base-port": { type: "string", default: "18100" },
    name: { type: "string", default: "" },
  },
});

type Generate = (prompt: string) => Promise<Generation>;

interface Sample {
  readonly tokensPerSecond: number;
  readonly firstTokenMs: number;
  /** CPU time of the process that generates and its children, per token. */
  readonly cpuUs: number;
}

let turn = 0;

/** Each client starts its next generation when the last has ended, until the time is over. */
async function measure(generate: Generate, clients: number, seconds: number, pid: number): Promise<Sample> {
  const done: Generation[] = [];
  await generate(promptOf(0, turn++));
  const startCpuUs = cpuTimeUs(pid);
  const startMs = performance.now();
  const endMs = startMs + seconds * 1000;
  const runClient = async (client: number): Promise<void> => {
    while (performance.now() < endMs) done.push(await generate(promptOf(client, turn++)));
  };
  await Promise.all(Array.from({ length: clients }, (_, client) => runClient(client)));
  const numTokens = done.reduce((sum, generation) => sum + generation.numTokens, 0);
  return {
    tokensPerSecond: (numTokens * 1000) / (performance.now() - startMs),
    firstTokenMs: median(done.map(({ firstTokenMs }) => firstTokenMs)),
    cpuUs: (cpuTimeUs(pid) - startCpuUs) / numTokens,
  };
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function summarize(samples: readonly Sample[]): Sample {
  return {
    tokensPerSecond: median(samples.map(({ tokensPerSecond }) => tokensPerSecond)),
    firstTokenMs: median(samples.map(({ firstTokenMs }) => firstTokenMs)),
    cpuUs: median(samples.map(({ cpuUs }) => cpuUs)),
  };
}

const server = await startNereid(ROOT, [`${ROOT}examples/model_repository`], Number(flags["base-port"]));
const engine = await EngineGenerator.open(modelDirOf(ROOT));
const grpc = new GrpcGenerator(server.grpcPort);
const ways: readonly (readonly [name: string, generate: Generate, pid: number])[] = [
  ["engine in this process", (prompt) => engine.generate(prompt), process.pid],
  ["HTTP generate_stream", (prompt) => generateOverHttp(server.httpPort, prompt), server.pid],
  ["gRPC ModelStreamInfer", (prompt) => grpc.generate(prompt), server.pid],
];
const rows: (Sample & { readonly name: string; readonly clients: number; readonly ratio: number })[] = [];
try {
  for (const clients of CLIENTS) {
    const samples = ways.map((): Sample[] => []);
    for (let round = 0; round < Number(flags.rounds); round++) {
      for (const [k, [, generate, pid]] of ways.entries()) {
        samples[k]?.push(await measure(generate, clients, Number(flags.seconds), pid));
      }
    }
    const summaries = samples.map(summarize);
    for (const [k, [name]] of ways.entries()) {
      const summary = summaries[k] as Sample;
      rows.push({ name, clients, ...summary, ratio: summary.tokensPerSecond / (summaries[0]?.tokensPerSecond ?? 1) });
    }
  }
} finally {
  grpc.close();
  await engine.close();
  await server.stop();
}
const text = table(
  ["row", "clients", "tokens/s", "of the engine alone", "first token ms", "CPU us a token"],
  rows.map(({ name, clients, tokensPerSecond, ratio, firstTokenMs, cpuUs }) => [
    name,
    String(clients),
    figure(tokensPerSecond),
    ratio.toFixed(2),
    figure(firstTokenMs),
    figure(cpuUs),
  ]),
);
console.log(text);
if (flags.name !== "") save();

function save(): void {
  mkdirSync(RESULTS, { recursive: true });
  const about = circumstances(`npm run bench:llm -- ${process.argv.slice(2).join(" ")}`);
  writeRawResults(flags.name, { ...about, rows });
  const head = [
    "# Language model: tokens per second and time to the first token",
    "",
    `Commit ${about.commit}, ${about.date}, Node ${about.node}, ${about.machine}.`,
    `Command: \`${about.command}\`. Model: examples/nereid-tiny through the model \`ensemble\`, one response per token.`,
    "",
    "Figures are medians of the rounds, in which the rows take turns. Clients run on the same cores as the server.",
    "The row `engine in this process` is the same engine inside the benchmark, fed with tokens. Its CPU time covers that process.",
  ];
  writeFileSync(`${RESULTS}${flags.name}.md`, `${[...head, "", text].join("\n")}\n`);
}
