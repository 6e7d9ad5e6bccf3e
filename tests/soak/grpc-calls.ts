/** A hundred thousand gRPC calls of every shape, mixed by a seed; at rest between the rounds nothing may have stayed. */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { mixCalls, SHAPE_MODELS } from "../support/grpc-shapes.ts";
import { createModelRepository } from "../support/model-repository.ts";
import { eventually, readMetric, residentBytes } from "../support/probe-server.ts";
import { createRandom, type Random } from "../support/random.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const CALLS_PER_ROUND = 10_000;
const MAX_ROUNDS = 10;
/** The first rounds fill caches and compile. */
const WARM_UP_ROUNDS = 3;
const WIDTH = 100;
const NUM_CONNECTIONS = 8;
const MAX_GROWTH_BYTES = 64 * 1024 * 1024;
/** Connections that scrapes of the metrics keep. */
const MAX_MORE_FILES = 4;

export const grpcCallsSoak: Soak = { name: "grpc-calls", run };

/** Ends early after as many calls as were promised. */
async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  await using repository = await createModelRepository({ files: SHAPE_MODELS });
  const flags = ["--grpc-infer-response-compression-level=low", "--metrics-config=open_work=true"];
  const server = await startServerProcess({ repositories: [repository.path], flags });
  try {
    const random = createRandom(seed);
    const rests: Rest[] = [];
    let calls = 0;
    for (let round = 0; round < MAX_ROUNDS && performance.now() < deadlineMs; round += 1) {
      calls += await oneRound(server, random, () => performance.now() < deadlineMs);
      rests.push(await atRest(server));
    }
    const warm = rests[Math.min(WARM_UP_ROUNDS, rests.length) - 1];
    const last = rests.at(-1);
    assert.ok(warm !== undefined && last !== undefined, "no round was made in time");
    const residentGrowthBytes = last.residentBytes - warm.residentBytes;
    assert.ok(residentGrowthBytes < MAX_GROWTH_BYTES, `memory grew by ${residentGrowthBytes} bytes`);
    assert.ok(last.files - warm.files <= MAX_MORE_FILES, `${last.files} open files, ${warm.files} before`);
    assert.ok(last.threads <= warm.threads, `${last.threads} threads, ${warm.threads} before`);
    await server.stop();
    return { calls, residentGrowthBytes, ...figures(rests) };
  } finally {
    await server.kill();
  }
}

async function oneRound(server: ServerProcess, random: Random, goesOn: () => boolean): Promise<number> {
  const counts = await mixCalls({
    port: server.grpc,
    random,
    numCalls: CALLS_PER_ROUND,
    width: WIDTH,
    numConnections: NUM_CONNECTIONS,
    goesOn,
  });
  return [...counts.values()].reduce((sum, count) => sum + count, 0);
}

interface Rest {
  readonly connections: number;
  readonly calls: number;
  readonly pending: number;
  readonly files: number;
  readonly threads: number;
  readonly residentBytes: number;
}

/** @throws AssertionError when something stays open */
async function atRest(server: ServerProcess): Promise<Rest> {
  const read = (family: string, ...labels: string[]): Promise<number> =>
    eventually(
      () => readMetric(server, family, ...labels),
      (value) => value === 0,
    );
  return {
    connections: await read("nereid_open_connections", '"grpc"'),
    calls: await read("nereid_open_calls", '"grpc"'),
    pending: await read("nv_inference_pending_request_count"),
    files: readdirSync(`/proc/${server.pid}/fd`).length,
    threads: readdirSync(`/proc/${server.pid}/task`).length,
    residentBytes: await residentBytes(server.pid),
  };
}

/** Resources left after each round. */
function figures(rests: readonly Rest[]): SoakResult {
  const result: Record<string, number> = {};
  for (const [i, rest] of rests.entries()) {
    for (const [name, value] of Object.entries(rest)) result[`${name}AfterRound${i + 1}`] = value as number;
  }
  return result;
}
