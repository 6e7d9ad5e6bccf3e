/**
 * The cost of OpenAI's API over `generate` on the same model and prompt, as CPU of the server's own process:
 * `npm run bench:openai -- [--seconds=6] [--base-port=18300] [--name=openai]`. A name stores the result under bench/results.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ownCpuTimeUs } from "../serving/process-cpu.ts";
import { circumstances, figure, table } from "../serving/report.ts";
import { startNereid } from "../serving/servers.ts";
import { type Load, runLoad } from "./load.ts";

const { values: flags } = parseArgs({
  options: {
    seconds: { type: "string", default: "6" },
    "base-port": { type: "string", default: "18300" },
    name: { type: "string", default: "" },
  },
});
const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const MODELS = [`${ROOT}examples/model_repository`, fileURLToPath(new URL("model_repository", import.meta.url))];
const PROMPT = "What is the first computer?";
const ROUNDS = 5;
const WARM_UP_MS = 1500;

interface Row {
  readonly name: string;
  readonly base: Load;
  readonly openai: Load;
}

const generate = (model: string, body: object, isStream: boolean, clients: number): Load => ({
  path: `/v2/models/${model}/generate${isStream ? "_stream" : ""}`,
  body: { text_input: PROMPT, ...body },
  isStream,
  clients,
});
const chat = (model: string, body: object, isStream: boolean, clients: number): Load => ({
  path: "/v1/chat/completions",
  body: { model, messages: [{ role: "user", content: PROMPT }], temperature: 0, stream: isStream, ...body },
  isStream,
  clients,
});

/** `words` is a TypeScript model that answers at once: the engine's own time does not hide the front end's. */
const ROWS: readonly Row[] = [
  {
    name: "one answer, one token (words)",
    base: generate("words", {}, false, 4),
    openai: chat("words", {}, false, 4),
  },
  {
    name: "one answer, one token (ensemble)",
    base: generate("ensemble", { max_tokens: 1 }, false, 4),
    openai: chat("ensemble", { max_tokens: 1 }, false, 4),
  },
  {
    name: "a stream of 200 events (many_words)",
    base: generate("many_words", {}, true, 8),
    openai: chat("many_words", {}, true, 8),
  },
  {
    name: "a stream of 27 events (ensemble)",
    base: generate("ensemble", { max_tokens: 40, stream: true }, true, 8),
    openai: chat("ensemble", { max_tokens: 40 }, true, 8),
  },
];

interface Cost {
  readonly requestUs: number;
  readonly eventUs: number;
}

/** CPU of the server's process a request and an event, load and answers included. */
async function measure(pid: number, port: number, load: Load, seconds: number): Promise<Cost> {
  await runLoad(port, load, WARM_UP_MS);
  const before = ownCpuTimeUs(pid);
  const { requests, events } = await runLoad(port, load, seconds * 1000);
  const us = ownCpuTimeUs(pid) - before;
  return { requestUs: us / requests, eventUs: us / Math.max(1, events) };
}

/** In turns, so that a slow minute of the machine meets both. */
async function compare(pid: number, port: number, row: Row): Promise<readonly [Cost, Cost]> {
  const bases: Cost[] = [];
  const openais: Cost[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    bases.push(await measure(pid, port, row.base, Number(flags.seconds) / ROUNDS));
    openais.push(await measure(pid, port, row.openai, Number(flags.seconds) / ROUNDS));
    await sleep(100);
  }
  return [median(bases), median(openais)];
}

function median(costs: readonly Cost[]): Cost {
  const middle = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;
  return { requestUs: middle(costs.map((c) => c.requestUs)), eventUs: middle(costs.map((c) => c.eventUs)) };
}

const server = await startNereid(ROOT, MODELS, Number(flags["base-port"]));
const lines: string[][] = [];
try {
  for (const row of ROWS) {
    const [base, openai] = await compare(server.pid, server.httpPort, row);
    const isStream = row.base.isStream;
    const [a, b] = isStream ? [base.eventUs, openai.eventUs] : [base.requestUs, openai.requestUs];
    const more = isStream ? `${(((b - a) / a) * 100).toFixed(0)} %` : `${figure(b - a)} us`;
    lines.push([row.name, isStream ? "event" : "request", figure(a), figure(b), more]);
  }
} finally {
  await server.stop();
}
const rows = table(["load", "for each", "generate, us", "OpenAI's API, us", "more"], lines);
process.stdout.write(`${rows}\n`);
if (flags.name !== "") {
  const { commit, machine, node, date } = circumstances("npm run bench:openai");
  const folder = `${ROOT}bench/results`;
  mkdirSync(folder, { recursive: true });
  const head = `# OpenAI's API over generate\n\nCPU of the server's own process, by \`npm run bench:openai\`. Medians of ${ROUNDS} rounds in turns.\n`;
  const where = `${machine}; Node.js ${node}; commit ${commit}; ${date}.`;
  writeFileSync(`${folder}/${flags.name}.md`, `${head}\n${rows}\n\n${where}\n`);
}
