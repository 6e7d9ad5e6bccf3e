/** `--workers`: copies behind one supervisor, restarted one by one under load, ended together. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { after, before, test } from "node:test";
import { decode, encode, identity } from "../../server/src/protocol/grpc/test-peer.test-support.ts";
import { openShapeClient } from "../support/grpc-shapes.ts";
import { testSize } from "../support/long-tests.ts";
import type { ModelRepository } from "../support/model-repository.ts";
import { eventually, readMetric } from "../support/probe-server.ts";
import { SERVER_BIN, type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { loadRepository, startSteadyLoad } from "../support/steady-load.ts";

const options = { timeout: 600_000 };
const ECHO_MESSAGE = encode("inference.ModelInferRequest", {
  model_name: "echo",
  inputs: [{ name: "INPUT0", datatype: "INT32", shape: [1] }],
  raw_input_contents: [Buffer.from([7, 0, 0, 0])],
});
let repository: ModelRepository;

before(async () => {
  repository = await loadRepository();
});
after(async () => repository[Symbol.asyncDispose]());

function startWorkers(count: number): Promise<ServerProcess> {
  return startServerProcess({ repositories: [repository.path], flags: [`--workers=${count}`] });
}

/** Processes that serve, by the lines of the log that say so. */
function servingPids(server: ServerProcess): readonly number[] {
  const [first = ""] = /workers serve: processes ([\d, ]+)/.exec(server.log())?.slice(1) ?? [];
  const pids = first.split(", ").map(Number);
  for (const [, number, pid] of server.log().matchAll(/worker (\d+): process (\d+) took over/g))
    pids[Number(number) - 1] = Number(pid);
  return pids;
}

async function roll(server: ServerProcess): Promise<void> {
  const numBefore = server.log().split("Rolling restart done").length;
  process.kill(server.pid, "SIGHUP");
  const count = (): Promise<number> => Promise.resolve(server.log().split("Rolling restart done").length);
  await eventually(count, (number) => number > numBefore);
}

/** Unary calls on one connection, one after the other, until told; resolves to the number of answers. @throws the error of a call */
async function callUntil(port: number, signal: AbortSignal): Promise<number> {
  const client = openShapeClient(port);
  const call = (): Promise<Buffer> =>
    new Promise((resolve, reject) => {
      const path = "/inference.GRPCInferenceService/ModelInfer";
      client.makeUnaryRequest(path, identity, identity, ECHO_MESSAGE, (error, value) => {
        if (error === null && value !== undefined) resolve(value);
        else reject(error ?? new Error("no answer"));
      });
    });
  let count = 0;
  try {
    for (; !signal.aborted; count += 1) {
      const answer = decode("inference.ModelInferResponse", await call());
      assert.deepEqual(answer.raw_output_contents, [Buffer.from([7, 0, 0, 0])]);
    }
  } finally {
    client.close();
  }
  return count;
}

test("rolling restarts of two workers lose no request of HTTP or gRPC, and no stream", options, async () => {
  const server = await startWorkers(2);
  try {
    await eventually(
      () => Promise.resolve(server.log()),
      (log) => log.includes("2 workers serve"),
    );
    const before = servingPids(server);
    const load = startSteadyLoad(server.http, 50, 4);
    const done = new AbortController();
    const calls = callUntil(server.grpc, done.signal);
    for (let k = 0; k < testSize(1, 5); k += 1) await roll(server);
    done.abort();
    await load.stop();
    assert.deepEqual(load.tally.lost, []);
    assert.ok(load.tally.answered > 0 && load.tally.streams > 0 && (await calls) > 0);
    const pids = servingPids(server);
    assert.equal(new Set([...before, ...pids]).size, 4);
    assert.deepEqual(
      before.filter((pid) => existsSync(`/proc/${pid}`)),
      [],
    );
    await server.stop();
  } finally {
    await server.kill();
  }
});

test("each worker has its label in the metrics, and a worker that dies is replaced", options, async () => {
  const server = await startWorkers(2);
  try {
    await eventually(
      () => Promise.resolve(server.log()),
      (log) => log.includes("2 workers serve"),
    );
    const load = startSteadyLoad(server.http, 50, 0);
    const answered = (worker: number) => () =>
      readMetric(server, "nv_inference_request_success", `worker="${worker}"`, 'model="echo"');
    for (const worker of [1, 2]) await eventually(answered(worker), (count) => count > 0);
    await load.stop();
    process.kill(servingPids(server)[1] ?? 0, "SIGKILL");
    await eventually(
      () => Promise.resolve(server.log()),
      (log) => log.includes("worker 2 serves again"),
    );
    await eventually(answered(2), (count) => count === 0);
    await server.stop();
  } finally {
    await server.kill();
  }
});

test("a rolling restart whose new process cannot start is given up, and the old one serves on", options, async () => {
  const server = await startWorkers(1);
  try {
    await eventually(
      () => Promise.resolve(server.log()),
      (log) => log.includes("1 workers serve"),
    );
    const config = `${repository.path}/echo/config.pbtxt`;
    const text = readFileSync(config, "utf8");
    writeFileSync(config, 'backend: "none"');
    process.kill(server.pid, "SIGHUP");
    await eventually(
      () => Promise.resolve(server.log()),
      (log) => log.includes("Rolling restart given up"),
    );
    writeFileSync(config, text);
    const answer = await fetch(`${server.baseUrl}/v2/models/echo/ready`);
    assert.equal(answer.status, 200);
    await server.stop();
  } finally {
    await server.kill();
  }
});

for (const [flags, expected] of [
  [["--workers=2", "--allow-client-shm=true"], /--allow-client-shm cannot be used with --workers=2/],
  [["--workers=1", "--model-control-mode=poll"], /--workers cannot be used with --model-control-mode=poll/],
  [["--workers=-1"], /invalid argument for --workers: expected 0 to 1024, got -1/],
] as const) {
  test(`${flags.join(" ")} is refused`, () => {
    const argv = [SERVER_BIN, `--model-repository=${repository.path}`, ...flags];
    const { status, stderr } = spawnSync(process.execPath, argv, { encoding: "utf8" });
    assert.equal(status, 1);
    assert.match(stderr, expected);
  });
}
