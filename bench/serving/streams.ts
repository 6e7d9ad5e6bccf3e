/**
 * How many events a second the server streams, what each costs it, and how long a small request waits meanwhile:
 * `npm run bench:streams -- [--seconds=5] [--base-port=18100] [--name=streams]`. A name stores the result under bench/results.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { type EventLoad, type StreamShape, startEventStreams, startGrpcStreams } from "./event-load.ts";
import { startHttpLoad } from "./http-load.ts";
import { grpcMessage, jsonRequest } from "./messages.ts";
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
  start(server: BenchServer): EventLoad;
}

/** 500 streams with an event each 10 ms: what 500 users of language models read. */
const PACED: StreamShape = { numEvents: 1000, delayMs: 10 };
const UNPACED: StreamShape = { numEvents: 5000, delayMs: 0 };

const ROWS: readonly Row[] = [
  sse("server-sent events, paced", PACED, 250),
  sse("server-sent events, paced", PACED, 500),
  besideJson(sse("server-sent events, paced, beside 2 clients of 1 MB as JSON", PACED, 100)),
  sse("server-sent events, at full speed", UNPACED, 64),
  grpc("gRPC, paced, 10 connections", PACED, 500, 10),
  grpc("gRPC, paced, 500 connections", PACED, 500, 500),
  grpc("gRPC, at full speed, 8 connections", UNPACED, 64, 8),
];

function offered({ delayMs }: StreamShape, streams: number): number | undefined {
  return delayMs === 0 ? undefined : (streams * 1000) / delayMs;
}

/** The same while others send large requests in JSON, one after the other: do the events queue behind them? */
function besideJson(row: Row): Row {
  const values = Float32Array.from({ length: 262_144 }, (_, i) => Math.sin(i));
  const request = jsonRequest("identity_fp32", [{ name: "INPUT0", datatype: "FP32", shape: [values.length], values }]);
  const start = (server: BenchServer): EventLoad => {
    const events = row.start(server);
    const json = startHttpLoad(server.httpPort, request, 2);
    const stop = events.stop.bind(events);
    events.stop = () => {
      json.stop();
      stop();
    };
    return events;
  };
  return { ...row, start };
}

function sse(name: string, shape: StreamShape, streams: number): Row {
  const start = ({ httpPort }: BenchServer): EventLoad => startEventStreams(httpPort, shape, streams);
  return { name, streams, offered: offered(shape, streams), start };
}

function grpc(name: string, shape: StreamShape, streams: number, connections: number): Row {
  const { numEvents, delayMs } = shape;
  const tensor = (name: string, value: number): Parameters<typeof grpcMessage>[1][number] => ({
    name,
    datatype: (name === "IN" ? "INT32" : "UINT32") as "INT32",
    shape: [numEvents],
    values: new Int32Array(numEvents).fill(value),
  });
  const tensors = delayMs > 0 ? [tensor("IN", 7), tensor("DELAY", delayMs)] : [tensor("IN", 7)];
  const message = grpcMessage("repeat", tensors);
  const start = ({ grpcPort }: BenchServer): EventLoad => startGrpcStreams(grpcPort, message, connections, streams);
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
  try {
    await sleep(WARM_UP_MS);
    load.count = 0;
    probe.tally.reset();
    const startCpuUs = cpuTimeUs(server.pid);
    const startMs = performance.now();
    await sleep(Number(flags.seconds) * 1000);
    const { count } = load;
    const cpuUs = cpuTimeUs(server.pid) - startCpuUs;
    const wallMs = performance.now() - startMs;
    const rate = (count * 1000) / wallMs;
    return [
      row.name,
      String(row.streams),
      row.offered === undefined ? "" : figure(row.offered),
      figure(rate),
      figure(cpuUs / count),
      figure((cpuUs / wallMs / 1000) * 100),
      figure(probe.tally.percentileUs(0.5)),
      figure(probe.tally.percentileUs(0.99)),
    ];
  } finally {
    load.stop();
    probe.stop();
    await sleep(500);
  }
}

function save(lines: readonly string[][]): void {
  mkdirSync(RESULTS, { recursive: true });
  const about = circumstances(`npm run bench:streams -- ${process.argv.slice(2).join(" ")}`);
  const head = ["row", "streams", "offered/s", "events/s", "CPU us an event", "% of a core", "probe p50 us", "p99 us"];
  const text = [
    "# Serving: streamed events",
    "",
    `Commit ${about.commit}, ${about.date}, Node ${about.node}, ${about.machine}.`,
    `Command: \`${about.command}\`.`,
    "",
    "A decoupled model of the server itself sends one small response after the other; each event is one of them, with two",
    "tensors. CPU is that of the whole server, the model and its timers included. The probe is a client that asks for the health",
    "of the server up to a hundred times a second: it sees how long a small request waits behind the streams, and behind the",
    "other clients in its own process.",
    "",
    table(head, lines),
    "",
  ].join("\n");
  writeFileSync(`${RESULTS}${flags.name}.md`, text);
  writeFileSync(`${RESULTS}${flags.name}.json`, `${JSON.stringify({ ...about, head, lines }, undefined, 2)}\n`);
}
