/**
 * How many events a second the server streams, what each costs it, and how long a small request waits meanwhile:
 * `npm run bench:streams -- [--seconds=5] [--base-port=18100] [--name=streams]`. A name stores the result under bench/results.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { writeRawResults } from "../raw-results.ts";
import { type EventLoad, type StreamShape, startEventStreams, startGrpcStreams } from "./event-load.ts";
import { startJsonClients } from "./json-clients.ts";
import { startProbe } from "./probe.ts";
import { cpuTimeUs } from "./process-cpu.ts";
import { circumstances, figure, table } from "./report.ts";
import { type BenchServer, startNereid } from "./servers.ts";

const { values: flags } = parseArgs({
  options: {
    seconds: { type: "string", default: "5" },
    "base-port": { type: "string", default: "18100" },
    name: { type: "string", default: "" },
    rows: { type: "string", default: "" },
    "node-flags": { type: "string", default: "" },
    "server-flags": { type: "string", default: "" },
  },
});
const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const RESULTS = fileURLToPath(new URL("../results/", import.meta.url));
const MODELS = ["stream_repository", "model_repository"].map((name) => fileURLToPath(new URL(name, import.meta.url)));
const WARM_UP_MS = 2000;

interface Row {
  readonly name: string;
  readonly streams: number;
  /** Events a second that are asked for; undefined: as many as possible. */
  readonly offered: number | undefined;
  readonly numJsonClients?: number;
  start(server: BenchServer): EventLoad;
}

/** 500 streams with an event each 10 ms: what 500 users of language models read. */
const PACED: StreamShape = { kind: "paced", periodUs: 10_000 };
/** As a batch of a language model: each step gives all of them one. */
const IN_STEP: StreamShape = { ...PACED, inStep: true };
const UNPACED: StreamShape = { kind: "unpaced", count: 5000 };
/** With their digits and commas a body of 1 MB. */
const NUM_JSON_VALUES = 53_000;

const ROWS: readonly Row[] = [
  sse("server-sent events", PACED, 500),
  sse("server-sent events, all in step", IN_STEP, 500),
  besideJson(sse("server-sent events, beside 4 clients of 1 MB as JSON", PACED, 500), 4),
  sse("server-sent events, at full speed", UNPACED, 64),
  grpc("gRPC, 10 connections", PACED, 500, 10),
  grpc("gRPC, 10 connections, all in step", IN_STEP, 500, 10),
  grpc("gRPC, 500 connections", PACED, 500, 500),
  besideJson(grpc("gRPC, 10 connections, beside 4 clients of 1 MB as JSON", PACED, 500, 10), 4),
  grpc("gRPC, at full speed, 8 connections", UNPACED, 64, 8),
];

function offered(shape: StreamShape, streams: number): number | undefined {
  return shape.kind === "unpaced" ? undefined : (streams * 1e6) / shape.periodUs;
}

/** The same while others send large requests in JSON, one after the other: do the events queue behind them? */
function besideJson(row: Row, numJsonClients: number): Row {
  return { ...row, numJsonClients };
}

function sse(name: string, shape: StreamShape, streams: number): Row {
  const start = ({ httpPort }: BenchServer): EventLoad => startEventStreams(httpPort, shape, streams);
  return { name, streams, offered: offered(shape, streams), start };
}

function grpc(name: string, shape: StreamShape, streams: number, connections: number): Row {
  const start = ({ grpcPort }: BenchServer): EventLoad => startGrpcStreams(grpcPort, shape, connections, streams);
  return { name, streams, offered: offered(shape, streams), start };
}

const server = await startNereid(
  ROOT,
  MODELS,
  Number(flags["base-port"]),
  flags["node-flags"].split(" ").filter(Boolean),
  flags["server-flags"].split(" ").filter(Boolean),
);
try {
  const lines: string[][] = [];
  for (const row of ROWS) {
    if (!row.name.includes(flags.rows)) continue;
    const line = await measure(row);
    lines.push(line);
    console.log(line.join("  "));
  }
  if (flags.name !== "") save(lines);
} finally {
  await server.stop();
}

async function measure(row: Row): Promise<string[]> {
  const load = row.start(server);
  const probe = startProbe(server.httpPort);
  const { numJsonClients } = row;
  const json =
    numJsonClients === undefined ? undefined : startJsonClients(server.httpPort, NUM_JSON_VALUES, numJsonClients);
  try {
    await sleep(WARM_UP_MS);
    await json?.completed();
    load.count = 0;
    load.latency.reset();
    probe.tally.reset();
    const startCpuUs = cpuTimeUs(server.pid);
    const startMs = performance.now();
    await sleep(Number(flags.seconds) * 1000);
    const { count } = load;
    const cpuUs = cpuTimeUs(server.pid) - startCpuUs;
    const wallMs = performance.now() - startMs;
    const latency = [0.5, 0.99, 0.999].map((share) => figure(load.latency.percentileUs(share)));
    const numJson = (await json?.completed()) ?? Number.NaN;
    return [
      row.name,
      String(row.streams),
      row.offered === undefined ? "" : figure(row.offered),
      figure((count * 1000) / wallMs),
      ...latency,
      figure(cpuUs / count),
      figure((cpuUs / wallMs / 1000) * 100),
      figure((numJson * 1000) / wallMs),
      figure(probe.tally.percentileUs(0.5)),
      figure(probe.tally.percentileUs(0.99)),
    ];
  } finally {
    load.stop();
    probe.stop();
    json?.stop();
    await sleep(500);
  }
}

function save(lines: readonly string[][]): void {
  mkdirSync(RESULTS, { recursive: true });
  const about = circumstances(`npm run bench:streams -- ${process.argv.slice(2).join(" ")}`);
  const latencies = ["late by p50 us", "p99 us", "p99.9 us"];
  const cpu = ["CPU us an event", "% of a core"];
  const head = ["row", "streams", "offered/s", "events/s", ...latencies, ...cpu, "JSON/s", "probe p50 us", "p99 us"];
  const text = [
    "# Serving: streamed events",
    "",
    `Commit ${about.commit}, ${about.date}, Node ${about.node}, ${about.machine}.`,
    `Command: \`${about.command}\`.`,
    "",
    "A decoupled model sends small responses one after another. Each event is one response with two tensors.",
    "",
    "- With an offered rate, the model is in TypeScript in its own thread. It follows the clock and makes up for late timers at once.",
    "- Lateness is the time from an event's due time to its arrival at the client.",
    '- Events are due evenly spread, or all at once every 10 ms ("in step"), as from a language model\'s batch.',
    "- CPU is the whole server's, including the model's thread and the JSON parser threads.",
    "- The 1 MB JSON clients run in their own process and send as fast as they are answered (JSON/s).",
    "- The probe asks for health up to a hundred times a second. It shows how long a small request waits behind the other traffic.",
    "- The probe's wait includes other clients in its own process.",
    "",
    table(head, lines),
    "",
  ].join("\n");
  writeFileSync(`${RESULTS}${flags.name}.md`, text);
  writeRawResults(flags.name, { ...about, head, lines });
}
