/**
 * Cost and savings of scheduling: units of work per second and CPU time of the server for each, done one way and the
 * other.
 * `npm run bench:scheduling -- [--seconds=4] [--rounds=3] [--rows=mlp] [--base-port=18000] [--name=scheduling]
 * [--node-flags=...]`. A name stores the result under bench/results.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { writeRawResults } from "../raw-results.ts";
import { measure, type Sample, type Summary, summarize } from "../serving/measure.ts";
import { circumstances, figure, table } from "../serving/report.ts";
import { type BenchServer, startNereid } from "../serving/servers.ts";
import { writeModels } from "./models.ts";
import { ROWS, type Row } from "./rows.ts";

const { values: flags } = parseArgs({
  options: {
    seconds: { type: "string", default: "4" },
    rounds: { type: "string", default: "3" },
    rows: { type: "string", default: "" },
    "base-port": { type: "string", default: "18000" },
    name: { type: "string", default: "" },
    "node-flags": { type: "string", default: "" },
  },
});

interface RowResult {
  readonly row: Row;
  readonly nereid: Summary;
}

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const RESULTS = fileURLToPath(new URL("../results/", import.meta.url));
const HEAD = [
  "work",
  "clients",
  "units/s",
  "p50 us",
  "p99 us",
  "CPU us a unit",
  "least",
  "CPU, of the first",
  "rate, of the first",
];

const models = mkdtempSync(join(tmpdir(), "nereid-bench-"));
try {
  writeModels(models);
  const nodeFlags = flags["node-flags"].split(" ").filter(Boolean);
  const server = await startNereid(ROOT, [models], Number(flags["base-port"]), nodeFlags);
  try {
    const results = await run(server);
    console.log(table(HEAD, lines(results)));
    if (flags.name !== "") save(results);
  } finally {
    await server.stop();
  }
} finally {
  rmSync(models, { recursive: true });
}

/** Every round measures all rows one after the other, so that they meet the same neighbours. */
async function run(server: BenchServer): Promise<RowResult[]> {
  const rows = ROWS.filter(({ name, group }) => `${name} ${group}`.includes(flags.rows));
  const samples = rows.map((): Sample[] => []);
  for (let round = 0; round < Number(flags.rounds); round += 1) {
    for (const [i, row] of rows.entries()) {
      samples[i]?.push(await measure({ ...row, protocol: "http" }, server, Number(flags.seconds)));
    }
  }
  return rows.map((row, i) => ({ row, nereid: summarize(samples[i] ?? []) }));
}

function lines(results: readonly RowResult[]): string[][] {
  return results.map(({ row, nereid }) => {
    const first = results.find((other) => other.row.group === row.group)?.nereid ?? nereid;
    return [
      row.name,
      String(row.clients),
      figure(nereid.requestsPerSecond),
      figure(nereid.p50Us),
      figure(nereid.p99Us),
      figure(nereid.cpuUs),
      figure(nereid.minCpuUs),
      (nereid.cpuUs / first.cpuUs).toFixed(2),
      (nereid.requestsPerSecond / first.requestsPerSecond).toFixed(2),
    ];
  });
}

function save(results: readonly RowResult[]): void {
  mkdirSync(RESULTS, { recursive: true });
  const about = circumstances(`npm run bench:scheduling -- ${process.argv.slice(2).join(" ")}`);
  const rows = results.map(({ row: { name, group, clients }, nereid }) => ({ name, group, clients, nereid }));
  writeRawResults(flags.name, { ...about, rows });
  const text = [
    "# Scheduling: cost and savings",
    "",
    `Commit ${about.commit}, ${about.date}, Node ${about.node}, ${about.machine}.`,
    `Command: \`${about.command}\`.`,
    "",
    "All rows use HTTP with binary tensors. Each row is compared with the first of its kind.",
    "",
    "| work | model |",
    "| --- | --- |",
    "| MLP | ONNX perceptron of 128-512-512-10 |",
    "| three calls, ensemble | layers of 16 by 16, so that little but the server is measured; three calls are one unit |",
    "| sequences | sums in an implicit state, 16 requests each, 1,000 alive at a time |",
    "| no sequence | the same model, with the state as an input |",
    "| TypeScript | one instance in its own thread |",
    "",
    "Figures are medians of the rounds. `least` is the smallest CPU time of all rounds.",
    "",
    table(HEAD, lines(results)),
    "",
  ].join("\n");
  writeFileSync(`${RESULTS}${flags.name}.md`, text);
}
