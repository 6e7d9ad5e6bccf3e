/**
 * Time to the first token of prompts that share their first 1,024 tokens, cold and with the prefix in the cache:
 * `npm run bench:llm-prefix -- [--rounds=15] [--prefix=1024] [--base-port=18200] [--name=llm-prefix]`
 */
import { mkdirSync, writeFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { writeRawResults } from "../raw-results.ts";
import { circumstances, figure, table } from "../serving/report.ts";
import { startNereid } from "../serving/servers.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const RESULTS = fileURLToPath(new URL("../results/", import.meta.url));
/** Ids of the example model that stand for plain text. */
const [FIRST_ID, NUM_IDS] = [100, 6000];
const OWN_TOKENS = 16;
const NEW_TOKENS = 4;

const { values: flags } = parseArgs({
  options: {
    rounds: { type: "string", default: "15" },
    prefix: { type: "string", default: "1024" },
    "base-port": { type: "string", default: "18200" },
    name: { type: "string", default: "" },
  },
});
const prefixLength = Number(flags.prefix);

function idsOf(seed: number, length: number): number[] {
  let state = seed * 2_654_435_761 + 1;
  return Array.from({ length }, () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return FIRST_ID + (state % NUM_IDS);
  });
}

/** Until the first event of a streamed answer; the rest is read too, so that nothing of it is left to the next one. */
async function firstTokenMs(port: number, ids: readonly number[]): Promise<number> {
  const startMs = performance.now();
  const response = await fetch(`http://127.0.0.1:${port}/v2/models/tensorrt_llm/generate_stream`, {
    method: "POST",
    body: JSON.stringify({
      input_ids: ids,
      input_lengths: ids.length,
      request_output_len: NEW_TOKENS,
      streaming: true,
    }),
  });
  if (!response.ok || response.body === null) throw new Error(`${response.status}: ${await response.text()}`);
  let firstMs = 0;
  for await (const _ of response.body) firstMs ||= performance.now() - startMs;
  return firstMs;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

const server = await startNereid(ROOT, [`${ROOT}examples/model_repository`], Number(flags["base-port"]));
const cold: number[] = [];
const warm: number[] = [];
const short: number[] = [];
try {
  await firstTokenMs(server.httpPort, idsOf(1, OWN_TOKENS));
  for (let round = 0; round < Number(flags.rounds); round++) {
    const prefix = idsOf(1000 + round, prefixLength);
    cold.push(await firstTokenMs(server.httpPort, [...prefix, ...idsOf(2000 + round, OWN_TOKENS)]));
    warm.push(await firstTokenMs(server.httpPort, [...prefix, ...idsOf(3000 + round, OWN_TOKENS)]));
    short.push(await firstTokenMs(server.httpPort, idsOf(4000 + round, OWN_TOKENS)));
  }
} finally {
  await server.stop();
}
const rows = [
  { name: `${prefixLength} + ${OWN_TOKENS} tokens, prefix not known`, firstTokenMs: median(cold) },
  { name: `${prefixLength} + ${OWN_TOKENS} tokens, prefix in the cache`, firstTokenMs: median(warm) },
  { name: `${OWN_TOKENS} tokens`, firstTokenMs: median(short) },
];
const ratio = median(cold) / median(warm);
const text = table(
  ["prompt", "time to first token, ms"],
  rows.map((row) => [row.name, figure(row.firstTokenMs)]),
);
console.log(`${text}\nshorter by ${ratio.toFixed(1)}`);
if (flags.name !== "") save();

function save(): void {
  mkdirSync(RESULTS, { recursive: true });
  const about = circumstances(`npm run bench:llm-prefix -- ${process.argv.slice(2).join(" ")}`);
  writeRawResults(flags.name, { ...about, ratio, rows });
  const head = [
    "# Language model: time to the first token with a cached prefix",
    "",
    `Commit ${about.commit}, ${about.date}, Node ${about.node}, ${about.machine}.`,
    `Command: \`${about.command}\`.`,
    "",
    "Model: examples/nereid-tiny through `generate_stream` of `tensorrt_llm`.",
    `Figures are medians of ${cold.length} rounds, each with its own prefix.`,
    "",
  ];
  const end = `\n\nThe time to the first token is ${ratio.toFixed(1)} times shorter when the prefix is in the cache.\n`;
  writeFileSync(`${RESULTS}${flags.name}.md`, `${[...head, text].join("\n")}${end}`);
}
