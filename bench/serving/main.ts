/**
 * Requests per second and CPU time of the server per request, beside what Node's own servers take to echo the same bytes.
 * `npm run bench:serving -- [--seconds=5] [--rounds=3] [--rows=simple] [--base-port=18000] [--name=serving] [--only-nereid]
 * [--before=FOLDER] [--server=NAME,http://HOST:PORT,GRPC_PORT[,PID]]`. A name stores the result under bench/results; `before` is another checkout, built, to be measured in turn.
 * `server`, several times, is a server that runs already, with the models of examples/model_repository and model_repository beside
 * this file; its CPU time is measured where its process is named.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { writeRawResults } from "../raw-results.ts";
import { measure, type Sample, type Summary, summarize } from "./measure.ts";
import { circumstances, figure, table } from "./report.ts";
import { ROWS, type Row } from "./rows.ts";
import { type DrivenServer, parseServer, startNereid, startReference } from "./servers.ts";

const { values: flags } = parseArgs({
  options: {
    seconds: { type: "string", default: "5" },
    rounds: { type: "string", default: "3" },
    rows: { type: "string", default: "" },
    "base-port": { type: "string", default: "18000" },
    name: { type: "string", default: "" },
    before: { type: "string", default: "" },
    server: { type: "string", multiple: true, default: [] },
    "only-nereid": { type: "boolean", default: false },
    "node-flags": { type: "string", default: "" },
  },
});

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const RESULTS = fileURLToPath(new URL("../results/", import.meta.url));
const REPOSITORIES = ["../../examples/model_repository", "model_repository"].map((folder) =>
  fileURLToPath(new URL(folder, import.meta.url)),
);

interface RowResult {
  readonly row: Row;
  readonly nereid: Summary;
  readonly references: Readonly<Record<string, Summary>>;
}

const others = flags.server.map(parseServer);
const basePort = Number(flags["base-port"]);
const servers = new Map<string, DrivenServer>();
try {
  const nodeFlags = flags["node-flags"].split(" ").filter(Boolean);
  servers.set("nereid", await startNereid(ROOT, REPOSITORIES, basePort, nodeFlags));
  if (flags.before !== "") servers.set("before", await startNereid(flags.before, REPOSITORIES, basePort + 10));
  for (const other of others) servers.set(other.name, other);
  if (!flags["only-nereid"]) {
    servers.set("node:http", await startReference("http", basePort + 3));
    servers.set("grpc-js", await startReference("grpc-js", basePort + 4));
    servers.set("grpc-js inference", await startReference("grpc-js-infer", basePort + 6));
    servers.set("node:http2", await startReference("http2", basePort + 5));
  }
  const results: RowResult[] = [];
  for (const row of ROWS) {
    if (!`${row.name} ${row.clients}`.includes(flags.rows)) continue;
    const result = await runRow(row);
    results.push(result);
    console.log(line(result).join("  "));
  }
  if (flags.name !== "") save(results);
} finally {
  await Promise.all([...servers.values()].map((server) => server.stop()));
}

/** Every round measures all servers one after the other, so that they meet the same neighbours. */
async function runRow(row: Row): Promise<RowResult> {
  const samples = new Map<string, Sample[]>();
  for (let round = 0; round < Number(flags.rounds); round++) {
    for (const [name, server] of servers) {
      if (!isComparable(name, row)) continue;
      const sample = await measure(row, server, Number(flags.seconds));
      samples.set(name, [...(samples.get(name) ?? []), sample]);
    }
  }
  const summaries = new Map([...samples].map(([name, list]) => [name, summarize(list)]));
  const nereid = summaries.get("nereid") as Summary;
  summaries.delete("nereid");
  return { row, nereid, references: Object.fromEntries(summaries) };
}

function isComparable(server: string, row: Row): boolean {
  if (server === "nereid" || server === "before" || others.some(({ name }) => name === server)) return true;
  if (server === "grpc-js inference") return row.protocol === "grpc" && row.name.includes("simple");
  if (server === "node:http") return row.protocol === "http";
  // The echo over bare node:http2 knows no messages: it answers when the call has ended.
  return row.protocol === "grpc" && (server === "grpc-js" || !row.name.includes("stream"));
}

function line({ row, nereid, references }: RowResult): string[] {
  const triton = row.tritonCpuUs;
  const range = triton === undefined ? "" : triton[0] === triton[1] ? `${triton[0]}` : `${triton[0]}-${triton[1]}`;
  const reference = (name: string): string[] => {
    const other = references[name];
    return other === undefined ? ["", ""] : [figure(other.cpuUs), (nereid.cpuUs / other.cpuUs).toFixed(2)];
  };
  return [
    row.name,
    String(row.clients),
    figure(nereid.requestsPerSecond),
    figure(nereid.p50Us),
    figure(nereid.p99Us),
    figure(nereid.cpuUs),
    figure(nereid.minCpuUs),
    range,
    ...reference("node:http"),
    ...reference("grpc-js"),
    ...reference("node:http2"),
    ...sameWork(nereid, references["grpc-js inference"]),
    ...reference("before"),
    ...others.flatMap(({ name }) => [rateOf(references[name]), ...reference(name)]),
  ];
}

function rateOf(other: Summary | undefined): string {
  return other === undefined ? "" : figure(other.requestsPerSecond);
}

/** Requests a second of the same inference by grpc-js, and how many times as many are made here. */
function sameWork(nereid: Summary, other: Summary | undefined): string[] {
  if (other === undefined) return ["", ""];
  return [figure(other.requestsPerSecond), (nereid.requestsPerSecond / other.requestsPerSecond).toFixed(2)];
}

function save(results: readonly RowResult[]): void {
  mkdirSync(RESULTS, { recursive: true });
  const about = circumstances(`npm run bench:serving -- ${process.argv.slice(2).join(" ")}`);
  const rows = results.map(({ row: { name, clients, requestBytes, tritonCpuUs }, nereid, references }) => ({
    name,
    clients,
    requestBytes,
    tritonCpuUs,
    nereid,
    references,
  }));
  writeRawResults(flags.name, { ...about, rows });
  const head = [
    "row",
    "clients",
    "requests/s",
    "p50 us",
    "p99 us",
    "CPU us",
    "least",
    "Triton, elsewhere",
    "node:http echo",
    "ratio",
    "grpc-js echo",
    "ratio",
    "node:http2 echo",
    "ratio",
    "grpc-js inference/s",
    "times",
    "before",
    "ratio",
    ...others.flatMap(({ name }) => [`${name} requests/s`, `${name} CPU us`, "ratio"]),
  ];
  const text = [
    "# Serving: CPU time of the server per request",
    "",
    `Commit ${about.commit}, ${about.date}, Node ${about.node}, ${about.machine}.`,
    `Command: \`${about.command}\`.`,
    "",
    "Figures are medians of the rounds. `least` is the smallest CPU time of all rounds.",
    "",
    "| column | meaning |",
    "| --- | --- |",
    "| echo | a server that only returns the request's bytes, measured in turn with Nereid, row by row |",
    "| `before` | CPU time of the build named by `--before`, measured in turn |",
    "| `ratio` | CPU time of Nereid over that of the column to its left |",
    "| `grpc-js inference/s` | requests per second of a grpc-js and protobufjs server that only adds and subtracts, as the model does |",
    "| `times` | Nereid's requests per second over these |",
    "| `Triton, elsewhere` | CPU us per request of Triton 2.70.0 on another machine of 2 virtual cores: an orientation only |",
    "",
    table(head, results.map(line)),
    "",
  ].join("\n");
  writeFileSync(`${RESULTS}${flags.name}.md`, text);
}
