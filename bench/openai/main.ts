/**
 * The cost of OpenAI's API over `generate` on the same model and prompt, as CPU of the server's own process:
 * `npm run bench:openai -- [--seconds=12] [--base-port=18300] [--name=openai]`. A name stores the result under bench/results.
 * It takes about three minutes, and wants a machine without other work. An event is one that carries text.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ownThreadTimeUs } from "../serving/process-cpu.ts";
import { circumstances, figure, table } from "../serving/report.ts";
import { startNereid } from "../serving/servers.ts";
import { type Load, runLoad } from "./load.ts";

const { values: flags } = parseArgs({
  options: {
    seconds: { type: "string", default: "12" },
    "base-port": { type: "string", default: "18300" },
    name: { type: "string", default: "" },
  },
});
const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const MODELS = [`${ROOT}examples/model_repository`, fileURLToPath(new URL("model_repository", import.meta.url))];
const PROMPT = "What is the first computer?";
const ROUNDS = 9;
/** Before the first round, and before each further one: the other load has run meanwhile. */
const WARM_UP_MS = [1500, 200] as const;

interface Row {
  readonly name: string;
  readonly base: Load;
  readonly openai: Load;
}

const generate = (model: string, body: object, isStream: boolean, clients: number): Load => ({
  path: `/v2/models/${model}/generate${isStream ? "_stream" : ""}`,
  body: { text_input: PROMPT, ...body },
  isStream,
  eventMark: '"text_output"',
  clients,
});
const chat = (model: string, body: object, isStream: boolean, clients: number): Load => ({
  path: "/v1/chat/completions",
  body: { model, messages: [{ role: "user", content: PROMPT }], temperature: 0, stream: isStream, ...body },
  isStream,
  eventMark: '"delta":{"content"',
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
async function measure(pid: number, port: number, load: Load, round: number): Promise<Cost> {
  await runLoad(port, load, WARM_UP_MS[round === 0 ? 0 : 1]);
  const before = ownThreadTimeUs(pid);
  const { requests, events } = await runLoad(port, load, (Number(flags.seconds) * 1000) / ROUNDS);
  const us = ownThreadTimeUs(pid) - before;
  return { requestUs: us / requests, eventUs: us / Math.max(1, events) };
}

/** In turns, so that a slow minute of the machine meets both. */
async function compare(pid: number, port: number, row: Row): Promise<readonly [Cost, Cost]> {
  const bases: Cost[] = [];
  const openais: Cost[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    bases.push(await measure(pid, port, row.base, round));
    openais.push(await measure(pid, port, row.openai, round));
    await sleep(100);
  }
  return [median(bases), median(openais)];
}

function median(costs: readonly Cost[]): Cost {
  const middle = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;
  return { requestUs: middle(costs.map((c) => c.requestUs)), eventUs: middle(costs.map((c) => c.eventUs)) };
}

/** Goals: 200 us more a request that is not streamed, and 10 % more an event. */
function lineOf(name: string, unit: "request" | "event", base: number, openai: number): string[] {
  const share = ((openai - base) / base) * 100;
  const isMet = unit === "event" ? share < 10 : openai - base < 200;
  const goal = unit === "request" && name.includes("stream") ? "-" : isMet ? "met" : "not met";
  return [name, unit, figure(base), figure(openai), `${figure(openai - base)} us`, `${share.toFixed(0)} %`, goal];
}

const server = await startNereid(ROOT, MODELS, Number(flags["base-port"]));
const lines: string[][] = [];
try {
  for (const row of ROWS) {
    const [base, openai] = await compare(server.pid, server.httpPort, row);
    lines.push(lineOf(row.name, "request", base.requestUs, openai.requestUs));
    if (row.base.isStream) lines.push(lineOf(row.name, "event", base.eventUs, openai.eventUs));
  }
} finally {
  await server.stop();
}
const rows = table(["load", "for each", "generate, us", "OpenAI's API, us", "more", "share", "goal"], lines);
process.stdout.write(`${rows}\n`);
if (flags.name !== "") {
  const { commit, machine, node, date } = circumstances("npm run bench:openai");
  const folder = `${ROOT}bench/results`;
  mkdirSync(folder, { recursive: true });
  const head = `# OpenAI's API over generate\n\nCPU of the server's own process, by \`npm run bench:openai\`. Medians of ${ROUNDS} rounds in turns.\n`;
  const where = `${machine}; Node.js ${node}; commit ${commit}; ${date}.`;
  writeFileSync(`${folder}/${flags.name}.md`, `${head}\n${rows}\n\n${where}\n`);
}
