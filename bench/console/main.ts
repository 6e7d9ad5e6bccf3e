/**
 * Processor time of the server while a console is open, beside the same server without one: in turns, in one run. Chromium has
 * each view in turn, under no load and under a steady one. Writes bench/results/console.md.
 *   node --conditions=nereid-source --import tsx bench/console/main.ts [--seconds=20] [--turns=3]
 */
import { readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { chromium, type Page } from "playwright-core";
import { CHROMIUM } from "../../tests/console/browser.ts";
import { CONSOLE_FLAGS, createConsoleModels } from "../../tests/console/console-models.ts";
import { startServerProcess } from "../../tests/support/server-process.ts";

const VIEWS = ["models", "live", "requests", "logs"] as const;
/** Ticks a second in `/proc/PID/stat` on Linux, and its fields behind the name (proc(5)). */
const TICKS_PER_S = 100;
const UTIME = 11;
const STIME = 12;
const PAGE_FILE = fileURLToPath(new URL("../results/console.md", import.meta.url));
const REQUEST = { inputs: [{ name: "X", datatype: "FP32", shape: [1, 4], data: [1, 2, 3, 4] }] };
const LOAD_INTERVAL_MS = 20;
const NUM_MODELS = 5;

const { values } = parseArgs({
  options: { seconds: { type: "string", default: "20" }, turns: { type: "string", default: "3" } },
});
const seconds = Number(values.seconds);
const turns = Number(values.turns);

function cpuSeconds(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[UTIME]) + Number(fields[STIME])) / TICKS_PER_S;
}

/** Percent of a core. */
async function measure(pid: number): Promise<number> {
  const [cpu, startMs] = [cpuSeconds(pid), performance.now()];
  await sleep(seconds * 1000);
  return ((cpuSeconds(pid) - cpu) / ((performance.now() - startMs) / 1000)) * 100;
}

function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}

/** A view asks for one of these every two seconds, and for the overview every five. */
const POLLS: readonly (readonly [path: string, perSecond: number])[] = [
  ["overview", 0.2],
  ["live", 0.5],
  ["traces", 0.5],
  ["logs?after=0", 0.5],
];
const NUM_CALLS = 1000;

interface Poll {
  readonly path: string;
  readonly perSecond: number;
  /** Processor time of the server. */
  readonly msPerCall: number;
}

/** Calls in a row: exact where the cost of a page drowns in the noise of the machine. */
async function measurePoll(url: string, pid: number, path: string, perSecond: number): Promise<Poll> {
  const call = async (): Promise<void> => {
    const answer = await fetch(`${url}/console/api/${path}`);
    await answer.arrayBuffer();
  };
  for (let i = 0; i < NUM_CALLS / 10; i += 1) await call();
  const cpu = cpuSeconds(pid);
  for (let i = 0; i < NUM_CALLS; i += 1) await call();
  const poll = { path, perSecond, msPerCall: ((cpuSeconds(pid) - cpu) * 1000) / NUM_CALLS };
  console.log(JSON.stringify(poll));
  return poll;
}

interface Row {
  readonly load: string;
  readonly view: string;
  readonly without: readonly number[];
  readonly with: readonly number[];
}

async function compare(page: Page, url: string, pid: number, load: string, view: string): Promise<Row> {
  const [without, open]: [number[], number[]] = [[], []];
  for (let turn = 0; turn < turns; turn += 1) {
    await page.goto("about:blank");
    await sleep(1000);
    without.push(await measure(pid));
    await page.goto(`${url}/console#/${view}`);
    await page.locator("h1").waitFor();
    await sleep(2000);
    open.push(await measure(pid));
  }
  const row = { load, view, without, with: open };
  console.log(JSON.stringify(row));
  return row;
}

function pageText(rows: readonly Row[], polls: readonly Poll[]): string {
  const shown = (numbers: readonly number[]): string =>
    `${median(numbers).toFixed(2)} (${numbers.map((each) => each.toFixed(2)).join(", ")})`;
  const lines = rows.map((row) => {
    const cost = median(row.with) - median(row.without);
    return `| ${row.load} | ${row.view} | ${shown(row.without)} | ${shown(row.with)} | ${cost.toFixed(2)} |`;
  });
  const pollLines = polls.map(({ path, perSecond, msPerCall }) => {
    return `| \`${path}\` | ${msPerCall.toFixed(2)} | ${perSecond} | ${((msPerCall / 10) * perSecond).toFixed(3)} |`;
  });
  return `# Cost of an open console

Processor time of the server process in percent of one core: median (all turns). ${turns} turns of ${seconds} s for each view, without and
with the console in turns, in one run on ${cpus().length} cores (${cpus()[0]?.model.trim() ?? "unknown"}). Chromium ran on the same machine.
The load is one request of a batching model every ${LOAD_INTERVAL_MS} ms.

| load | view | without | with | cost |
| --- | --- | --- | --- | --- |
${lines.join("\n")}

Calls in a row show the cost of one of them, where that of a page drowns in the noise of a loaded machine: ${NUM_CALLS} calls of each
route, with ${NUM_MODELS} models and 200 traces.

| route | processor time of a call, ms | calls per second | percent of a core |
| --- | --- | --- | --- |
${pollLines.join("\n")}

\`npm run build && node --conditions=nereid-source --import tsx bench/console/main.ts --seconds=${seconds} --turns=${turns}\`
`;
}

const models = await createConsoleModels();
const flags = [...CONSOLE_FLAGS, "--load-model=prepare"];
const server = await startServerProcess({ repositories: [models.path], flags, waitFor: "live" });
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
try {
  const page = await browser.newPage();
  const rows: Row[] = [];
  for (const view of VIEWS) rows.push(await compare(page, server.baseUrl, server.pid, "none", view));
  const body = JSON.stringify(REQUEST);
  const timer = setInterval(() => {
    void fetch(`${server.baseUrl}/v2/models/prepare/infer`, { method: "POST", body }).then((answer) => answer.text());
  }, LOAD_INTERVAL_MS);
  for (const view of ["live", "requests"]) rows.push(await compare(page, server.baseUrl, server.pid, "steady", view));
  clearInterval(timer);
  await page.goto("about:blank");
  const polls: Poll[] = [];
  for (const [path, perSecond] of POLLS) polls.push(await measurePoll(server.baseUrl, server.pid, path, perSecond));
  writeFileSync(PAGE_FILE, pageText(rows, polls));
} finally {
  await browser.close();
  await server.kill();
  await models[Symbol.asyncDispose]();
}
