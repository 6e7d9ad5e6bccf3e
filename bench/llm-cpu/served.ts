/**
 * Clients that stream tokens from Nereid over HTTP, beside as many sequences of node-llama-cpp's own API in one process,
 * without any server. Both read the same random model and take turns on an otherwise idle machine.
 * `npm run bench:llm-served -- [--shapes=100mb,1b] [--formats=bf16,q8_0,q4_0] [--clients=8] [--rounds=3] [--name=llm-served]`
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { writeRawResults } from "../raw-results.ts";
import { circumstances, figure, table } from "../serving/report.ts";
import { Contestant } from "./contestant.ts";
import { SHAPE_1B, SHAPE_100MB, type WeightFormat, writeRandomGguf } from "./random-gguf.ts";
import { ServedNereid } from "./served-nereid.ts";
import type { Generation, Setup } from "./worker-protocol.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const RESULTS = fileURLToPath(new URL("../results/", import.meta.url));
/** Not a dependency of the project: installed here when the bench first runs. */
const API_FOLDER = join(ROOT, ".cache/node-llama-cpp");
const API_VERSION = "3.22.1";
const MAX_CONTEXT = 160;
const PROMPT_TOKENS = 32;

const { values: flags } = parseArgs({
  options: {
    shapes: { type: "string", default: "100mb,1b" },
    formats: { type: "string", default: "bf16,q8_0,q4_0" },
    clients: { type: "string", default: "8" },
    rounds: { type: "string", default: "3" },
    threads: { type: "string", default: "2" },
    "base-port": { type: "string", default: "18300" },
    name: { type: "string", default: "" },
  },
});

interface Row {
  readonly shape: string;
  readonly format: string;
  /** Output tokens per second of the fastest round, prefill included. */
  readonly nereid: number;
  readonly api: number;
}

installApi();
const folder = mkdtempSync(join(tmpdir(), "llm-served-"));
const rows: Row[] = [];
try {
  for (const shape of flags.shapes.split(",")) {
    for (const format of flags.formats.split(",") as WeightFormat[]) {
      const modelPath = join(folder, "random.gguf");
      await writeRandomGguf(modelPath, shape === "1b" ? SHAPE_1B : SHAPE_100MB, format);
      rows.push(await compare(shape, format, modelPath));
    }
  }
} finally {
  rmSync(folder, { recursive: true });
}
const text = table(
  ["model", "weights", "Nereid over HTTP tokens/s", "node-llama-cpp tokens/s", "ratio"],
  rows.map(({ shape, format, nereid, api }) => [shape, format, figure(nereid), figure(api), (nereid / api).toFixed(2)]),
);
console.log(text);
if (flags.name !== "") save();

async function compare(shape: string, format: WeightFormat, modelPath: string): Promise<Row> {
  const clients = Number(flags.clients);
  const setup: Setup = {
    modelPath,
    format,
    numThreads: Number(flags.threads),
    maxBatch: clients,
    maxContext: MAX_CONTEXT,
  };
  const generation: Generation = { clients, promptTokens: PROMPT_TOKENS, newTokens: shape === "1b" ? 32 : 96 };
  const api = new Contestant("node-llama-cpp", "api-worker.ts");
  const nereid = await ServedNereid.start(ROOT, join(folder, "repository"), Number(flags["base-port"]), setup);
  try {
    await api.ask(setup);
    const fastest = { nereid: Number.POSITIVE_INFINITY, api: Number.POSITIVE_INFINITY };
    for (let round = 0; round < Number(flags.rounds); round++) {
      fastest.nereid = Math.min(fastest.nereid, await nereid.generate(generation));
      fastest.api = Math.min(fastest.api, ...(await api.ask({ kind: "generate", ...generation })));
    }
    const tokens = clients * generation.newTokens * 1000;
    const row = { shape, format, nereid: tokens / fastest.nereid, api: tokens / fastest.api };
    console.error(`${shape} ${format}: ${figure(row.nereid)} and ${figure(row.api)}`);
    return row;
  } finally {
    await nereid.stop();
    await api.close();
  }
}

function installApi(): void {
  process.env.NODE_LLAMA_CPP_FOLDER = API_FOLDER;
  if (existsSync(join(API_FOLDER, "node_modules/node-llama-cpp"))) return;
  mkdirSync(API_FOLDER, { recursive: true });
  writeFileSync(join(API_FOLDER, "package.json"), "{}");
  execFileSync("npm", ["install", "--ignore-scripts", "--prefix", API_FOLDER, `node-llama-cpp@${API_VERSION}`]);
}

function save(): void {
  mkdirSync(RESULTS, { recursive: true });
  const about = circumstances(`npm run bench:llm-served -- ${process.argv.slice(2).join(" ")}`);
  writeRawResults(flags.name, { ...about, rows });
  const head = [
    "# Streaming clients of the server, beside node-llama-cpp's own API",
    "",
    `Commit ${about.commit}, ${about.date}, Node ${about.node}, ${about.machine}.`,
    `Command: \`${about.command}\`. node-llama-cpp ${API_VERSION}; random weights, both read the same file, ${flags.threads} threads.`,
    "",
    `${flags.clients} concurrent clients, prompts of ${PROMPT_TOKENS} tokens, greedy. Figures are output tokens per second of the fastest round,`,
    "prefill included. Nereid's clients run on the same processors as its server, and read one event a token. The API's caller gets",
    "tokens in its own process.",
  ];
  writeFileSync(`${RESULTS}${flags.name}.md`, `${[...head, "", text].join("\n")}\n`);
}
