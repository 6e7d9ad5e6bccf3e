/**
 * Ordinary traffic through the installed server on a GPU, beside the same load greedy and unstreamed:
 * `node traffic.mjs --program=<nereid.cjs> --examples=examples --checkpoint=/dev/shm/llama --parameters=weight_type=fp8,...`.
 * Each row runs directly behind a round of the base load. A checkpoint that is not there is written with the shapes of
 * Llama-3.1-8B. `--peak` scales its last norm, so that distributions have a top token instead of being flat.
 */
import { existsSync, mkdirSync, openSync, readFileSync, readSync, writeFileSync, writeSync } from "node:fs";
import { join, resolve } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { numberToBf16 } from "../../../server/src/core/bf16.ts";
import { createRandom } from "../../../tests/support/random.ts";
import { newRepository, putEngine } from "../served-repository.ts";
import { startServer } from "../served-server.ts";
import { LLAMA_8B } from "../synthetic-model.ts";
import { writeSynthetic } from "../write-synthetic.ts";
import { askInRounds, quantile, streamArrivals } from "./load.ts";
import { generateRequest, ROWS, type Row, type Size } from "./requests.ts";
import { writeVocabulary } from "./vocabulary.ts";

const { values: flags } = parseArgs({
  options: {
    program: { type: "string", default: "" },
    examples: { type: "string", default: "examples" },
    checkpoint: { type: "string", default: "/dev/shm/llama" },
    work: { type: "string", default: "/tmp/traffic" },
    gpus: { type: "string", default: "0" },
    parameters: { type: "string", default: "weight_type=fp8,kv_cache_type=fp8,quantize_lm_head=true" },
    clients: { type: "string", default: "64" },
    input: { type: "string", default: "128" },
    output: { type: "string", default: "256" },
    rounds: { type: "string", default: "2" },
    /** Rows whose kind and name match. */
    filter: { type: "string", default: "" },
    /** Shares of the saturated rate at which streams of 512 / 128 arrive, "" for none. */
    arrivals: { type: "string", default: "" },
    seconds: { type: "string", default: "10" },
    /** Factor of the last norm. */
    peak: { type: "string", default: "1" },
    out: { type: "string", default: "" },
    port: { type: "string", default: "18450" },
  },
});
const PORT = Number(flags.port);
const CLIENTS = Number(flags.clients);
const ROUNDS = Number(flags.rounds);
const READY_TIMEOUT_MS = 200_000;
const SATURATING_CLIENTS = 256;
const ARRIVING = { input: 512, output: 128 };

const results: Record<string, unknown>[] = [];

function note(result: Record<string, unknown>): void {
  console.log(JSON.stringify(result));
  results.push(result);
  if (flags.out === "") return;
  mkdirSync(flags.out, { recursive: true });
  writeFileSync(join(flags.out, `traffic-${flags.peak}.json`), JSON.stringify({ flags, results }, undefined, 1));
}

/** Sets all weights of the last norm of a model in one file. */
function scaleLastNorm(folder: string, factor: number): void {
  const file = openSync(join(folder, "model.safetensors"), "r+");
  const length = Buffer.alloc(8);
  readSync(file, length, 0, 8, 0);
  const header = Buffer.alloc(Number(length.readBigUInt64LE()));
  readSync(file, header, 0, header.length, 8);
  const tensors = JSON.parse(header.toString()) as Record<string, { data_offsets: [number, number] }>;
  const [start, end] = tensors["model.norm.weight"]?.data_offsets ?? [0, 0];
  writeSync(
    file,
    Uint16Array.from({ length: (end - start) / 2 }, () => numberToBf16(factor)),
    0,
    end - start,
    8 + header.length + start,
  );
}

function distinct(count: number, size: Size, from: number, row?: Row): ReturnType<typeof generateRequest>[] {
  return Array.from({ length: count }, (_, k) =>
    generateRequest(size, from + k, row === undefined ? {} : row.fields(k, size)),
  );
}

let turn = 0;

/** Output tokens a second of the requests that are counted: all, or all but the special one. */
async function rate(size: Size, counted: number, row?: Row): Promise<number> {
  turn += 1;
  const from = turn * 1000;
  const ofAll = row?.who === "all" ? row : undefined;
  const beside = generateRequest(size, from + 999, row?.fields(CLIENTS - 1, size));
  return askInRounds(PORT, distinct(counted, size, from, ofAll), ROUNDS, beside);
}

async function measureRows(size: Size): Promise<void> {
  const filter = new RegExp(flags.filter);
  const bases: number[] = [];
  for (const row of ROWS.filter(({ name, who }) => filter.test(`${who}: ${name}`))) {
    try {
      const base = await rate(size, CLIENTS - 1);
      bases.push(base);
      const tokensPerSecond = await rate(size, CLIENTS - 1, row);
      note({ row: row.name, who: row.who, tokensPerSecond, base, ratio: tokensPerSecond / base });
    } catch (error) {
      note({ row: row.name, who: row.who, error: String(error) });
    }
  }
  bases.sort((a, b) => a - b);
  note({ row: "base", lowest: bases[0], median: quantile(bases, 0.5), highest: bases.at(-1) });
}

async function measureArrivals(vocabulary: number): Promise<void> {
  const size = { ...ARRIVING, vocabulary };
  const saturate = (from: number, rounds: number): Promise<number> =>
    askInRounds(PORT, distinct(SATURATING_CLIENTS, size, from), rounds, generateRequest(size, from - 1));
  await saturate(1_000_000, 1);
  const saturated = (await saturate(2_000_000, 2)) / size.output;
  note({ row: "saturated", ...ARRIVING, requestsPerSecond: saturated });
  for (const share of flags.arrivals.split(",").map(Number)) {
    const random = createRandom(Math.round(share * 1000)).next;
    const arrivals = { requestsPerSecond: share * saturated, seconds: Number(flags.seconds), random };
    const make = (index: number) => generateRequest(size, 3_000_000 + 10_000 * share + index, { streaming: true });
    const { firstMs, betweenMs } = await streamArrivals(PORT, make, arrivals);
    const [p50, p99] = [0.5, 0.99].map((q) => ({ firstMs: quantile(firstMs, q), betweenMs: quantile(betweenMs, q) }));
    note({ row: "arrivals", share, count: firstMs.length, p50, p99, worstMs: betweenMs.at(-1) });
  }
}

if (!existsSync(join(flags.checkpoint, "config.json"))) await writeSynthetic(flags.checkpoint, LLAMA_8B);
const config = JSON.parse(readFileSync(join(flags.checkpoint, "config.json"), "utf8")) as { vocab_size: number };
if (!existsSync(join(flags.checkpoint, "tokenizer.json"))) writeVocabulary(flags.checkpoint, config.vocab_size);
scaleLastNorm(flags.checkpoint, Number(flags.peak));
const put = newRepository(join(flags.work, "repository"));
putEngine(put, { ...flags, modelDir: resolve(flags.checkpoint) });
const server = await startServer({
  program: flags.program,
  repository: join(flags.work, "repository"),
  port: PORT,
  readyTimeoutMs: READY_TIMEOUT_MS,
});
try {
  const size = { input: Number(flags.input), output: Number(flags.output), vocabulary: config.vocab_size };
  await rate({ ...size, output: 32 }, CLIENTS);
  await measureRows(size);
  if (flags.arrivals !== "") await measureArrivals(config.vocab_size);
} catch (error) {
  console.log("FAILED:", error, server.lines.slice(-20).join("\n"));
  process.exitCode = 1;
}
await server.stop();
